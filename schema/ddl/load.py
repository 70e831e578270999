"""Load a DDL file, or a statement that restarts an identity column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from hornbeam_server.schema.build import build
from hornbeam_server.schema.caches import TextCache
from hornbeam_server.schema.counters import SEQUENCE
from hornbeam_server.schema.ddl.agreement import agree
from hornbeam_server.schema.ddl.altered_tables import read_alter
from hornbeam_server.schema.ddl.comments import (
    CommentDraft,
    comments_of_mysql,
    read_comment,
    with_full_names,
)
from hornbeam_server.schema.ddl.domains import as_alias, as_table
from hornbeam_server.schema.ddl.drafts import ColumnChange, DraftRestart, Drafts
from hornbeam_server.schema.ddl.foreign import (
    make_readable,
    next_number,
    readable_tokens,
    rename_taken_indexes,
    set_next_number,
)
from hornbeam_server.schema.ddl.identities import (
    apply_sequences,
    begun_at,
    read_added_identity,
    read_sequence,
    read_setval,
    restarted,
)
from hornbeam_server.schema.ddl.indexes import read_index
from hornbeam_server.schema.ddl.located import STATEMENT, located, makes_schema
from hornbeam_server.schema.ddl.partitions import about_part, partition_notes, parts_of_tables
from hornbeam_server.schema.ddl.passing import pass_over_bounds, pass_over_indexes
from hornbeam_server.schema.ddl.roles import (
    Passed,
    Role,
    calls,
    declared_name,
    dumped_view,
    indexed_name,
    is_added_type,
    named_in_drop,
    passed,
    passed_notes,
    role,
    routines,
    viewed_name,
)
from hornbeam_server.schema.ddl.rows import UTF8
from hornbeam_server.schema.ddl.scan import Piece, pieces
from hornbeam_server.schema.ddl.sources import Source, recognised
from hornbeam_server.schema.ddl.spaces import Spaces
from hornbeam_server.schema.ddl.statement import STATEMENTS, Statement
from hornbeam_server.schema.ddl.tables import read_domain, read_enum, read_table
from hornbeam_server.schema.ddl.views import read_plain_view, read_view
from hornbeam_server.schema.drafts import (
    ColumnDraft,
    Expression,
    Name,
    Place,
    RelationDraft,
    ViewDraft,
)
from hornbeam_server.schema.errors import SchemaError
from hornbeam_server.schema.model import PUBLIC, DeclaredSequence, Refresh, Schema
from hornbeam_server.schema.problems import Problems
from hornbeam_server.schema.trees import unlink

INCLUDED = "Give that file by itself; hornbeam import reads the rows of included files."
_DUMPED, _HEAD = "\n-- PostgreSQL database dump", 10_000
"""The sign of pg_dump, and the number of characters in which it stands."""
_READINGS: TextCache[tuple[str, str, Source | None, str], Reading] = TextCache(4, 2_000_000)
_WITHOUT_ROWS = "hornbeam import FILE loads them, too"


@dataclass(frozen=True)
class Reading:
    """A file as it was read. If it has `problems`, `schema` lacks the wrong elements. `rows` are
    the statements that add or change rows, in their order."""

    source: Source
    schema: Schema
    problems: Problems
    rows: tuple[Piece, ...]
    includes: tuple[Piece, ...]
    """The lines that read another file."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Tables of the file that are parts of another one (`partitions`)."""
    expressions: Mapping[tuple[str, str], Expression] = field(default_factory=dict)
    """The expressions of relations and indexes, by the relation and their text."""
    encoding: str = UTF8
    changes: tuple[ColumnChange, ...] = ()
    """The columns that ALTER TABLE changes, in the order of the file."""
    comments: tuple[CommentDraft, ...] = ()
    commented_copies: tuple[tuple[str, str], ...] = ()
    """The relations of LIKE … INCLUDING COMMENTS: the source, and the new relation."""


def load_ddl(text: str, file: str = "<ddl>", source: Source | None = None) -> Schema:
    """The schema that `text` declares; forward references are allowed. `source`: the dialect; None:
    it is recognised.

    Raises SchemaError with `file`, line and column (from 1). The detail `problems` describes all
    errors of the file.
    """
    return schema_of(read_file(text, file, source))


def schema_of(reading: Reading) -> Schema:
    """The schema that a file declares. Raises the errors of `load_ddl`."""
    refuse_includes(reading)
    reading.problems.require_none()
    rows = passed_notes(passed(piece) for piece in reading.rows)
    notes = (*reading.schema.notes, *(f"{note}; {_WITHOUT_ROWS}" for note in rows))
    return replace(reading.schema, notes=notes)


def refuse_includes(reading: Reading) -> None:
    """Add a problem for each line that reads another file."""
    for piece in reading.includes:
        with reading.problems.collect():
            what = piece.text.strip().rstrip(";")
            raise piece.place.error(f"{what} reads another file.", cure=INCLUDED, name=what)


def read_file(
    text: str, file: str = "<ddl>", source: Source | None = None, encoding: str = UTF8
) -> Reading:
    """Read a whole file, with rows or without. Does not raise: errors are in `problems`. `encoding`
    is that of the file, from which columns of bytes get their values. The last readings without
    problems are kept: an ALTER TABLE reads the schema in force, and then twice the new one."""
    key = (text, file, source, encoding)
    found = _READINGS.get(key)
    if found is None:
        found = _read_file(*key)
        if found.problems.found():
            return found
        _READINGS.put(key, len(text), found)
    return replace(found, problems=Problems())


def _read_file(text: str, file: str, source: Source | None, encoding: str) -> Reading:
    source = recognised(text) if source is None else source
    drafts, scanned = Drafts(), list[Piece]()
    with drafts.problems.collect():
        scanned.extend(pieces(text, file, source))
    file_ = located(scanned, source, Spaces(), drafts.problems)
    parts = parts_of_tables(file_.pieces, source)
    drafts.routines = routines(file_.pieces)
    dumped = file_.pieces if _DUMPED in text[:_HEAD] else []
    views = {view for piece in dumped if (view := dumped_view(piece))}
    found = _Found(views, _has_only_rows(file_.pieces))
    with drafts.problems.collect():
        for piece in file_.pieces:
            if not about_part(piece, parts):
                _sort(piece, source, file, drafts, found)
    apply_sequences(drafts)
    _check_domains(drafts)
    _adapt(drafts, source, file)
    relations = list(drafts.relations.values()) + drafts.repeated
    sequences = list(drafts.sequences.values())
    schema = build(
        relations,
        drafts.indexes,
        drafts.views,
        drafts.problems,
        sequences,
        file_.made,
        drafts.declared_domains,
    )
    notes = (
        *schema.notes,
        *file_.notes,
        *_notes(source, drafts, found.silent),
        *partition_notes(parts),
    )
    whole = replace(schema, notes=notes, enumerations=drafts.enumerations)
    return Reading(
        source,
        whole,
        drafts.problems,
        tuple(found.rows),
        tuple(found.includes),
        parts,
        dict(_expressions(drafts)),
        encoding,
        tuple(drafts.changes),
        with_full_names(drafts.comments, whole),
        tuple(drafts.commented_copies),
    )


@dataclass(slots=True)
class _Found:
    """What is known of a file before its pieces are read, and the pieces that make no part of the
    schema. `views`: the views that a dump declares as tables first."""

    views: set[str]
    only_rows: bool
    rows: list[Piece] = field(default_factory=list)
    includes: list[Piece] = field(default_factory=list)
    silent: list[Passed] = field(default_factory=list)


def _sort(piece: Piece, source: Source, file: str, drafts: Drafts, found: _Found) -> None:
    """Read a piece into the drafts, or put it where its kind belongs."""
    of_view = found.views & {dumped_view(piece), indexed_name(piece)}
    if of_view or (found.only_rows and piece.words[:2] == ("ALTER", "TABLE")):
        found.silent.append(passed(piece))
        return
    match role(piece):
        case Role.HOLDS_NO_ROWS if makes_schema(piece):
            pass
        case Role.HOLDS_NO_ROWS:
            found.silent.append(passed(piece))
        case Role.VIEW if source is not Source.POSTGRES or calls(piece.text, drafts.routines):
            drafts.unread.add(viewed_name(piece))
            found.silent.append(passed(piece))
        case Role.VIEW if file != STATEMENT:
            found.silent += _read_view(piece, drafts)
        case Role.COMMENTS:
            with drafts.problems.collect():
                drafts.comments.append(read_comment(Statement.of(piece)))
        case Role.ROWS | Role.CHANGES:
            found.rows.append(piece)
        case Role.DROPS if _lowered(drafts).isdisjoint(named_in_drop(piece)):
            _drop_views(piece, drafts)
            found.silent.append(passed(piece))
        case Role.INCLUDES:
            found.includes.append(piece)
        case _:
            _read_piece(piece, drafts)


def _check_domains(drafts: Drafts) -> None:
    """Add a problem for each domain that has the name of a relation."""
    for domain in drafts.declared_domains:
        name = domain.name
        with drafts.problems.collect((name.text, "")):
            if name.text in drafts.relations:
                raise name.place.error(
                    f"Domain {name.text} has the name of a relation.",
                    cure="Choose another name.",
                    name=name.text,
                )


def _adapt(drafts: Drafts, source: Source, file: str) -> None:
    """Change what a file declares where the schema cannot have it, with notes."""
    pass_over_bounds(drafts)
    if source is not Source.POSTGRES:
        rename_taken_indexes(drafts)
    if file != STATEMENT:
        pass_over_indexes(drafts)
    agree(drafts.relations)


def _expressions(drafts: Drafts) -> Iterator[tuple[tuple[str, str], Expression]]:
    for draft in drafts.relations.values():
        found = [check.expression for check in draft.all_checks]
        found += [each for column in draft.columns for each in column.expressions]
        yield from (((draft.name.text, each.sql), each) for each in found)
    for domain in drafts.declared_domains:
        found = [*(check.expression for check in domain.checks), *domain.column.expressions]
        yield from (((domain.name.text, each.sql), each) for each in found)
    for index in drafts.indexes:
        parts = (part for part, _ in index.columns if isinstance(part, Expression))
        for each in (*parts, *((index.where,) if index.where is not None else ())):
            yield (index.relation.text, each.sql), each


def _has_only_rows(found: Sequence[Piece]) -> bool:
    """Does a file have rows and declare nothing? It may drop constraints before its rows, and add
    them again behind them, which has no effect."""
    roles = [role(piece) for piece in found]
    declares = (
        piece.words[:1] == ("CREATE",)
        for piece, its_role in zip(found, roles, strict=True)
        if its_role is Role.DECLARES
    )
    return Role.ROWS in roles and not any(declares)


def _notes(source: Source, drafts: Drafts, silent: Sequence[Passed]) -> Iterator[str]:
    if source is not Source.POSTGRES:
        yield f"read as a file of {source.value}; --dialect names another one"
    yield from drafts.notes
    yield from passed_notes(silent)


def _read_view(piece: Piece, drafts: Drafts) -> Iterator[Passed]:
    """Read CREATE VIEW of a file. It is passed over if it cannot be read, since it holds no
    rows."""
    try:
        _read(Statement.of(piece, drafts.types), drafts)
    except SchemaError:
        drafts.unread.add(viewed_name(piece))
        yield passed(piece)


def _read_piece(piece: Piece, drafts: Drafts) -> None:
    subject = (declared_name(piece), "")
    spoils = piece.words[:1] == ("CREATE",)
    about = () if spoils else (subject,)
    with drafts.problems.collect(subject, spoils=spoils, about=about):
        statement = Statement.of(piece, drafts.types)
        _read(as_alias(statement) if is_added_type(piece) else statement, drafts)


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart of an identity column or a sequence (`SEQUENCE`): its next number is `at`; None:
    its declared first number. `value` is the number in the statement."""

    relation: str
    column: str
    at: int | None
    value: int | None
    called: bool = False
    """Is `value` the last number that was given, for currval?"""


def load_restart(
    sql: str, schema: Schema, file: str = "", path: Sequence[str] = (PUBLIC,)
) -> Restart:
    """Read ALTER TABLE … ALTER COLUMN … RESTART, ALTER SEQUENCE … RESTART or SELECT setval(…) for
    an identity column or a sequence of `schema`, under a search path. Raises SchemaError."""
    drafts = Drafts(relations=dict(_identities(schema)))
    spaces = Spaces.of(schema, path)
    statements = [replace(p, spaces=spaces) for p in pieces(sql, file, Source.POSTGRES)]
    for piece in statements:
        _read(Statement.of(piece), drafts)
    if len(statements) != 1 or len(drafts.restarts) != 1:
        raise Place.at(sql, 0, file).error(
            "This does not restart one identity column.",
            cure="Write ALTER TABLE … ALTER COLUMN … RESTART WITH 42.",
        )
    (restart,) = drafts.restarts
    for sequence in schema.sequences:
        if restart.column is None and sequence.name == restart.owner.text:
            return _restart_of(sequence, restart)
    draft, column = restarted(restart, drafts)
    identity = schema.relation(draft.name.text).column(column).default
    assert identity is not None
    at = None if restart.at is None else begun_at(restart, identity.identity).start
    return Restart(draft.name.text, column, at, restart.at, restart.called)


def _restart_of(sequence: DeclaredSequence, restart: DraftRestart) -> Restart:
    """The restart of a declared sequence. Raises SchemaError for a number beyond its bounds."""
    at = restart.at
    if at is not None and not sequence.least <= at <= sequence.most:
        raise restart.owner.place.error(
            f"{at} is no number of sequence {sequence.name}, which has {sequence.least} to"
            f" {sequence.most}.",
            cure="Give a number within its bounds.",
            name=sequence.name,
        )
    begins = None if at is None else begun_at(restart, sequence.numbers).start
    return Restart(SEQUENCE, sequence.name, begins, at, restart.called)


def _identities(schema: Schema) -> Iterator[tuple[str, RelationDraft]]:
    """Drafts of a schema's relations, sufficient for reading RESTART."""
    for relation in schema.relations:
        columns = [
            ColumnDraft(Name(column.name, Place()), column.type, column.nullable, column.default)
            for column in relation.visible
        ]
        yield relation.name, RelationDraft(Name(relation.name, Place()), columns)


def _read(statement: Statement, drafts: Drafts) -> None:
    words = [token.text.upper() for token in statement.tokens]
    if words[0] == "SELECT" and "SETVAL" in words[:4]:
        drafts.restarts.append(read_setval(statement))
        return
    if words[0] not in {"CREATE", "ALTER"}:
        statement.refuse(words[0], statement.start, STATEMENTS)
    if words[1:2] == ["SEQUENCE"]:
        read_sequence(statement, drafts)
        return
    if words[:2] == ["CREATE", "MATERIALIZED"]:
        statement = statement.without_data()
    is_alias = words[:2] == ["CREATE", "TYPE"] and "FROM" in words
    is_domain = words[:2] == ["CREATE", "DOMAIN"] or is_alias
    if "VIRTUAL" in words and words[0] == "CREATE":
        line = statement.place(statement.start).line
        drafts.notes.append(f"VIRTUAL columns of the table in line {line} are stored")
    if words[:2] == ["ALTER", "TABLE"] and words[-2:] == ["NOT", "VALID"]:
        line = statement.place(statement.start).line
        drafts.notes.append(f"NOT VALID in line {line}: the stored rows are checked")
    if is_domain:
        statement = as_table(statement)
    tree = replace(statement, tokens=readable_tokens(statement.tokens, statement.source)).parse()
    try:
        if is_domain:
            read_domain(statement, tree, drafts)
        else:
            _read_tree(statement, tree, words, drafts)
    finally:
        unlink(tree)


def _add_plain(draft: ViewDraft, drafts: Drafts, *, replaces: bool) -> None:
    """Add a plain view. With OR REPLACE it takes the place of a plain view of its name."""
    for i, known in enumerate(drafts.views if replaces else ()):
        if known.name.text == draft.name.text and known.view.refresh is Refresh.PLAIN:
            drafts.views[i] = draft
            return
    drafts.views.append(draft)


def _lowered(drafts: Drafts) -> set[str]:
    """The names of the declared relations in lower case."""
    return {name.lower() for name in drafts.relations}


def _drop_views(piece: Piece, drafts: Drafts) -> None:
    """Take the plain views out that a DROP VIEW names: pg_dump --clean declares them before."""
    if piece.words[1:2] == ("VIEW",):
        named = set(named_in_drop(piece))
        drafts.views = [each for each in drafts.views if each.name.text not in named]


def _read_tree(statement: Statement, tree: exp.Expr, words: Sequence[str], drafts: Drafts) -> None:
    if isinstance(tree, exp.Command):
        read_added_identity(statement, drafts)
        return
    begins = next_number(tree)
    if statement.source is Source.MYSQL:
        drafts.comments += comments_of_mysql(statement, tree)
    make_readable(statement, tree, drafts)
    kind = str(tree.args.get("kind") or "").upper()
    if isinstance(tree, exp.Create) and kind == "TABLE":
        draft = read_table(statement, tree, drafts)
        if begins is not None:
            set_next_number(begins, draft)
        if drafts.relations.setdefault(draft.name.text, draft) is not draft:
            drafts.repeated.append(draft)
    elif isinstance(tree, exp.Create) and kind == "INDEX":
        drafts.indexes.append(read_index(statement, tree))
    elif isinstance(tree, exp.Create) and kind == "VIEW" and words[1] == "MATERIALIZED":
        drafts.views.append(read_view(statement, tree))
    elif isinstance(tree, exp.Create) and kind == "VIEW":
        _add_plain(read_plain_view(statement, tree), drafts, replaces=bool(tree.args["replace"]))
    elif isinstance(tree, exp.Alter) and kind == "TABLE":
        read_alter(statement, tree, drafts)
    elif kind == "TYPE" and isinstance(tree.expression, exp.DataType):
        read_enum(statement, tree, drafts)
    else:
        statement.refuse(" ".join(words[:2]), statement.start, STATEMENTS)
