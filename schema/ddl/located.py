"""The statements of a file with the schemas that are known at each of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from hornbeam_server.schema.ddl.scan import CREATE_SCHEMA, Piece
from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.ddl.spaces import NAME, Spaces
from hornbeam_server.schema.drafts import Name
from hornbeam_server.schema.model import PUBLIC
from hornbeam_server.schema.namespaces import joined
from hornbeam_server.schema.problems import Problems

_OWNER = re.compile(rf"\s*(?:AUTHORIZATION\s+{NAME}\s*)?;?\s*", re.IGNORECASE)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_PATH = re.compile(
    r"SET\s+(?:SESSION\s+|LOCAL\s+)?search_path\s*(?:=|\s+TO\s)\s*(?P<path>.*)|"
    r"SET\s+SCHEMA\s+(?P<schema>.*)|USE\s+(?P<database>.*)",
    re.IGNORECASE | re.DOTALL,
)
_STRING = re.compile(r"'((?:[^']|'')*)'")
_NAMED = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:(?:GLOBAL|LOCAL|TEMP|TEMPORARY|UNLOGGED|MATERIALIZED)\s+)*"
    r"(?:TABLE|VIEW|SEQUENCE|DOMAIN|TYPE)\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    rf"(?P<name>{NAME})",
    re.IGNORECASE,
)


STATEMENT = ""
"""The file name of a statement that a client sends."""


@dataclass(frozen=True, slots=True)
class Located:
    """The statements of a file, each with its schemas. `made` are the schemas that the file creates
    or needs."""

    pieces: tuple[Piece, ...]
    made: tuple[Name, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Names:
    """What the statements of a file declare: `created` are the schemas of CREATE SCHEMA, `written`
    those that something is in, each with the first statement that names it, and `named` the schema
    and the name of relations, views, sequences and types."""

    created: dict[str, Piece] = field(default_factory=dict)
    written: dict[str, Piece] = field(default_factory=dict)
    named: list[tuple[str, str]] = field(default_factory=list)


def located(found: Sequence[Piece], source: Source, known: Spaces, problems: Problems) -> Located:
    """The statements with their schemas. `known` are the schemas that exist before the file. In a
    file, a schema that no statement creates is made, too; a statement that a client sends needs
    schemas that exist."""
    spaces = replace(known, source=source)
    paths = list(_paths(found, spaces))
    names = _names(found, paths, spaces)
    foreign = {space: piece for space, piece in names.written.items() if space != PUBLIC}
    left_out = foreign.keys() if source is Source.MYSQL and len(names.written) == 1 else set()
    created = {} if source is Source.MYSQL else names.created
    of_statement = any(piece.place.file == STATEMENT for piece in found)
    assumed = {s: p for s, p in foreign.items() if s not in {*created, *known.declared, *left_out}}
    for space, piece in assumed.items() if of_statement else ():
        with problems.collect():
            raise piece.place.error(
                f"There is no schema {space}.",
                cure=f"Write CREATE SCHEMA {space} first.",
                name=space,
            )
    made = {**created, **assumed}
    full = {joined(PUBLIC if s in left_out else s, n) for s, n in names.named}
    spaces = replace(
        spaces,
        declared=known.declared | made.keys(),
        left_out=frozenset(left_out),
        names=known.names | full,
    )
    pieces = tuple(
        replace(piece, spaces=_along(path, spaces))
        for piece, path in zip(found, paths, strict=True)
    )
    for piece in created.values():
        with problems.collect():
            _refuse_elements(piece)
    return Located(
        pieces,
        tuple(Name(space, piece.place) for space, piece in made.items()),
        tuple(_notes(left_out, assumed)),
    )


def _paths(found: Sequence[Piece], spaces: Spaces) -> Iterator[tuple[str, ...]]:
    """The search path at each statement, as it is written."""
    path = spaces.path
    for piece in found:
        if piece.words[:1] in {("SET",), ("USE",)} and (match := _PATH.match(piece.text)):
            is_path = match["path"] is not None
            written = match["path"] or match["schema"] or match["database"] or ""
            listed = [_unquoted(part, spaces) for part in written.rstrip("; \n").split(",")]
            path = tuple(listed) if is_path or spaces.source is Source.MYSQL else tuple(listed[:1])
            if spaces.source is Source.SQLSERVER:  # USE names a database
                path = spaces.path
        yield (spaces.last_name(piece.schema), *path) if piece.schema else path


def _unquoted(part: str, spaces: Spaces) -> str:
    """A schema in a search path: a name, or a string."""
    text = _STRING.match(part.strip())
    if text is not None:
        return text[1].replace("''", "'")
    named = spaces.parts(part)
    return spaces.space(named[-1]) if named else ""


def _along(path: Sequence[str], spaces: Spaces) -> Spaces:
    """The schemas at a statement of a file: `public` if the path has none."""
    found = spaces.along(path)
    return found if found.path else replace(found, path=(PUBLIC,))


def _names(found: Sequence[Piece], paths: Sequence[Sequence[str]], spaces: Spaces) -> _Names:
    names = _Names()
    for piece, path in zip(found, paths, strict=True):
        if piece.words[:1] != ("CREATE",):
            continue
        made = CREATE_SCHEMA.match(piece.text)
        if made is not None:
            space = spaces.last_name(made["name"])
            if space != PUBLIC and spaces.space(space) != PUBLIC:
                names.created.setdefault(space, piece)
        named = _NAMED.match(piece.text)
        if named is None:
            continue
        *before, name = spaces.parts(named["name"])
        space = spaces.space(before[-1]) if before else _home(path, names, spaces)
        names.written.setdefault(space, piece)
        names.named.append((space, name))
    return names


def _home(path: Sequence[str], names: _Names, spaces: Spaces) -> str:
    """The schema of a new relation. A database of MySQL need not be created by the file."""
    known = {PUBLIC, *spaces.declared, *names.created}
    of_mysql = spaces.source is Source.MYSQL
    return next((each for each in path if each and (of_mysql or each in known)), PUBLIC)


def makes_schema(piece: Piece) -> bool:
    """Is it a CREATE SCHEMA that is carried out?"""
    return piece.words[:2] == ("CREATE", "SCHEMA") and piece.spaces.source is not Source.MYSQL


def _refuse_elements(piece: Piece) -> None:
    """Refuse CREATE SCHEMA with further words: of a file, its elements are statements already."""
    found = CREATE_SCHEMA.match(piece.text)
    of_schema = piece.words[1:2] == ("SCHEMA",)
    more = "" if found is None else _COMMENT.sub(" ", found["more"])
    if of_schema and found is not None and found["name"].upper() == "AUTHORIZATION":
        raise piece.place.error(
            "CREATE SCHEMA AUTHORIZATION CURRENT_USER names no schema, and a schema has no owner.",
            cure="Write CREATE SCHEMA name.",
            name="CREATE SCHEMA",
        )
    if of_schema and not _OWNER.fullmatch(more):
        raise piece.place.error(
            "CREATE SCHEMA with the statements of its relations is only supported in files.",
            cure="Write CREATE SCHEMA name, and the other statements behind it.",
            name="CREATE SCHEMA",
        )


def _notes(left_out: Collection[str], assumed: Collection[str]) -> Iterator[str]:
    for space in left_out:
        yield f"the name of the database {space} is left out: its relations are in public"
    for space in assumed:
        yield f"the schema {space} is created, which the file does not create"
