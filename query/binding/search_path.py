"""Search paths: a statement whose names have no schemas, written with the schemas.

The path of a session is applied to the text, before anything else reads it. So plans, retries and
stored statements know full names only, and a statement means the same under any path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.query.binding.texts_with_names import named_in_texts
from hornbeam_server.query.dialect.settings import is_show, show_as_query
from hornbeam_server.query.parsing.parse import behind_parenthesis, read_statement
from hornbeam_server.query.parsing.sequence_calls import OF_COLUMN
from hornbeam_server.query.system.relations import in_catalog, in_information_schema
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.errors import UnknownName
from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.schema.model import INFORMATION_SCHEMA, PUBLIC
from hornbeam_server.schema.namespaces import SYSTEM_CATALOG, existing, joined
from hornbeam_server.schema.qualifying import (
    Edit,
    edited,
    qualifications,
    type_qualifications,
)
from hornbeam_server.schema.render import spelled
from hornbeam_server.schema.sequences import argument_of, named
from hornbeam_server.schema.sqltext import literal_sql
from hornbeam_server.schema.trees import unlink

_ASKING = {"current_schema", "current_schemas"}
_NAMING = {"nextval", "currval", "setval", OF_COLUMN}
"""Functions whose first argument is the name of a sequence or of a relation."""
_VISIBLE = {"pg_table_is_visible", "pg_type_is_visible"}
_QUOTED = {TokenType.IDENTIFIER, TokenType.STRING}


def in_search_path(sql: str, catalog: Catalog, path: Sequence[str]) -> str:
    """The statement with the schemas of its names, and with `path` as what it asks for by SHOW
    search_path, current_schema and current_schemas. As in PostgreSQL, schemas of the path that do
    not exist are passed over. Raises SqlError."""
    if is_show(sql):
        return show_as_query(sql, {"search_path": _shown(path)})
    known = existing(path, catalog.schema.spaces)
    tokens, tree = read_statement(sql)
    try:
        finder = _Finder(catalog, known)
        edits = [*qualifications(tree, finder.qualified), *_answers(tokens, known)]
        edits += _settings(tokens, path)
        edits += [*_visibilities(tokens, known), *type_qualifications(tokens, finder.qualified)]
        sequences = [*finder.sequences(tokens)]
        others = {each.start for each in sequences}
        texts = named_in_texts(tree, catalog, known)
        edits += [*sequences, *(each for each in texts if each.start not in others)]
        return edited(sql, edits)
    finally:
        unlink(tree)


class _Finder:
    """Finds relations along a path of schemas that exist."""

    def __init__(self, catalog: Catalog, path: Sequence[str]) -> None:
        self._catalog, self._path = catalog, path

    def qualified(self, parts: Sequence[str]) -> str | None:
        """The name with its schema; None if `parts` have one, or if it needs none. A relation that
        is not found is one of the first schema, where the binder refuses it. Raises UnknownName
        without any schema."""
        if len(parts) > 1:
            return None
        (name,) = parts
        if in_catalog(name):
            return f"{SYSTEM_CATALOG}.{identifier(name)}"
        for space in self._path:
            if space == INFORMATION_SCHEMA and in_information_schema(name):
                return f"{space}.{identifier(name)}"
            full = joined(space, name)
            if self._exists(full):
                return None if space == PUBLIC else spelled(full, self._catalog.schema.spaces)
        if PUBLIC in self._path:
            return None
        if not self._path:
            raise UnknownName(
                f"Relation {name} is unknown: no schema of the search path exists.",
                cure=f"Write its schema before the name, or SET search_path TO {PUBLIC}.",
                name=name,
            )
        return spelled(joined(self._path[0], name), self._catalog.schema.spaces)

    def sequences(self, tokens: Sequence[Token]) -> Iterator[Edit]:
        """The edits of the names in calls such as nextval('number'): of sequences, and of the
        relation in pg_get_serial_sequence('item', 'id')."""
        sequences = self._catalog.sequences.__contains__
        for call, opening, name in zip(tokens, tokens[1:], tokens[2:], strict=False):
            function = call.text.lower()
            called = function in _NAMING and opening.text == "("
            if not called or name.token_type is not TokenType.STRING or "." in name.text:
                continue
            exists = self._exists if function == OF_COLUMN else sequences
            full = (joined(space, named(name.text)) for space in self._path)
            found = next(filter(exists, full), "")
            if found:
                yield Edit(name.start, name.end + 1, argument_of(found))

    def _exists(self, full: str) -> bool:
        catalog = self._catalog
        known = full in catalog.schema or catalog.relations_of(full) or full in catalog.plain_view
        return bool(known)


def _shown(path: Sequence[str]) -> str:
    """The path as SHOW search_path gives it."""
    return ", ".join(map(identifier, path))


def _settings(tokens: Sequence[Token], path: Sequence[str]) -> Iterator[Edit]:
    """The edits that give current_setting('search_path') its value as the third argument."""
    for i, token in enumerate(tokens):
        words = [each.text.lower() for each in tokens[i : i + 6]]
        if words[:3] == ["current_setting", "(", "search_path"] and token.token_type not in _QUOTED:
            end = tokens[i + 2 + 2 * (words[3:4] == [","])].end + 1
            more = "" if words[3:4] == [","] else ", false"
            yield Edit(end, end, f"{more}, {literal_sql(_shown(path))}")


def _answers(tokens: Sequence[Token], path: Sequence[str]) -> Iterator[Edit]:
    """The edits that give the functions of the path their values as arguments."""
    words = [token.text.lower() for token in tokens]
    for i, token in enumerate(tokens):
        if words[i] not in _ASKING or token.token_type in _QUOTED:
            continue
        before, behind = "".join(words[i - 1 : i]), words[i + 1 : i + 4]
        if before in {".", "as"} or behind[:1] == ["."]:
            continue
        if words[i] == "current_schema":
            called = behind[:2] == ["(", ")"]
            end = tokens[i + 2].end if called else token.end
            value = literal_sql(path[0]) if path else "NULL"
            yield Edit(token.start, end + 1, f"current_schema({value})")
        elif behind[:1] == ["("] and behind[2:] == [")"]:
            listed = "".join(f", {literal_sql(space)}" for space in path)
            yield Edit(tokens[i + 3].start, tokens[i + 3].start, listed or ", NULL")


def _visibilities(tokens: Sequence[Token], path: Sequence[str]) -> Iterator[Edit]:
    """The edits that give pg_table_is_visible and pg_type_is_visible the path as further
    arguments."""
    listed = "".join(f", {literal_sql(space)}" for space in path or ("",))
    for i, token in enumerate(tokens):
        if token.text.lower() not in _VISIBLE or token.token_type in _QUOTED:
            continue
        if "".join(each.text for each in tokens[i + 1 : i + 2]) == "(":
            end = tokens[behind_parenthesis(tokens, i + 1) - 1]
            yield Edit(end.start, end.start, listed)
