"""DDL files: the schema as SQL text, read with located errors and written back.

The loader reads (with sqlglot's "postgres", which accepts the common forms of DuckDB, MySQL and
SQLite too) CREATE TABLE, CREATE [UNIQUE] INDEX … INCLUDE, CREATE MATERIALIZED VIEW (its SELECT is
stored as written, and bound when the schema is planned), and ALTER TABLE … ADD [CONSTRAINT …] as
pg_dump writes it. ALTER … RESTART WITH and setval set the first number of an identity column of the
file. Unknown statements and options are refused: nothing in a file is silently ignored. Every node
is checked to have only parts that are read here (`_Statement.only`).

The output of `pg_dump --schema-only` is accepted unchanged: all names may have the same schema
prefix, sequences that are column defaults become IDENTITY, and statements that do not affect rows
(owners, grants, comments, session settings) are skipped.

Constraints are checked on the net changes at the end of a transaction, so DEFERRABLE and
INITIALLY … are accepted, and NO ACTION is RESTRICT.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import NoReturn

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.schema.build import (
    ColumnDraft,
    ForeignKeyDraft,
    IndexDraft,
    Name,
    Place,
    RelationDraft,
    ViewDraft,
    build,
)
from hornbeam_server.schema.model import (
    DEFAULT_GROUP,
    DEFAULT_INTERVAL_S,
    DeclaredView,
    Default,
    DefaultKind,
    Identity,
    OnDelete,
    Refresh,
    Schema,
)
from hornbeam_server.schema.render import render_ddl
from hornbeam_server.schema.sequences import Options, read_options
from hornbeam_server.schema.sqltext import (
    is_serial,
    no_fallback_warnings,
    read_default,
    read_type,
    tokenize,
    type_note,
)
from hornbeam_server.schema.trees import unlink, unlink_unfinished

__all__ = ["load_ddl", "render_ddl"]

_DIALECT = Dialect.get_or_raise("postgres")
_QUOTED = {TokenType.IDENTIFIER, TokenType.STRING}
_STATEMENTS = (
    "a DDL file holds CREATE TABLE, CREATE INDEX, CREATE MATERIALIZED VIEW, ALTER TABLE … ADD"
    " CONSTRAINT and ALTER COLUMN … RESTART WITH"
)
_READ = (["TABLE"], ["INDEX"], ["UNIQUE"], ["MATERIALIZED"])
"""Words after CREATE."""
_WITH_DATA = (["WITH", "NO", "DATA"], ["WITH", "DATA"])
_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_INTERVAL = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|h)\s*")


_SILENT = {"SET", "COMMENT", "GRANT", "REVOKE"}
"""First words of statements that do not affect rows."""
_SETVAL = (["SELECT", "SETVAL", "("], ["SELECT", "PG_CATALOG", ".", "SETVAL", "("])


def load_ddl(text: str, file: str = "<ddl>") -> Schema:
    """The schema that `text` declares; forward references are allowed.

    Raises SchemaError or CircularReference with `file`, line and column (from 1).
    """
    drafts = _Drafts()
    for statement in _statements(text, file):
        if not _is_silent(statement):
            _read(statement, drafts)
    _number(drafts)
    return build(list(drafts.relations.values()) + drafts.repeated, drafts.indexes, drafts.views)


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart of an identity column: its next number is `at`; None: its declared first number.
    `value` is the number in the statement."""

    relation: str
    column: str
    at: int | None
    value: int | None


def load_restart(sql: str, schema: Schema, file: str = "") -> Restart:
    """Read ALTER TABLE … ALTER COLUMN … RESTART, ALTER SEQUENCE … RESTART or SELECT setval(…) for
    an identity column of `schema`. Raises SchemaError."""
    drafts = _Drafts(relations=dict(_identities(schema)))
    statements = list(_statements(sql, file))
    for statement in statements:
        _read(statement, drafts)
    if len(statements) != 1 or len(drafts.restarts) != 1:
        raise Place.at(sql, 0, file).error(
            "this does not restart one identity column",
            cure="write ALTER TABLE … ALTER COLUMN … RESTART WITH 42",
        )
    (restart,) = drafts.restarts
    draft, column = _restarted(restart, drafts)
    identity = schema.relation(draft.name.text).column(column).default
    assert identity is not None
    at = None if restart.at is None else _begun_at(restart, identity.identity).start
    return Restart(draft.name.text, column, at, restart.at)


def _identities(schema: Schema) -> Iterator[tuple[str, RelationDraft]]:
    """Drafts of a schema's relations, sufficient for reading RESTART."""
    for relation in schema.relations:
        columns = [
            ColumnDraft(Name(column.name, Place()), column.type, column.nullable, column.default)
            for column in relation.columns
        ]
        yield relation.name, RelationDraft(Name(relation.name, Place()), columns)


@dataclass(slots=True)
class _Drafts:
    """The declarations of a file. `repeated` holds further declarations of a name; the builder
    refuses them. `sequences` are the declared sequences. `draws` maps the name of a sequence to the
    column that takes its numbers from it. `restarts` are the restarts after the declarations."""

    relations: dict[str, RelationDraft] = field(default_factory=dict)
    repeated: list[RelationDraft] = field(default_factory=list)
    indexes: list[IndexDraft] = field(default_factory=list)
    views: list[ViewDraft] = field(default_factory=list)
    sequences: dict[str, tuple[Name, Options]] = field(default_factory=dict)
    draws: dict[str, tuple[RelationDraft, str]] = field(default_factory=dict)
    restarts: list[_Restart] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Restart:
    """A restart of the column `column` of relation `owner`, or of the sequence `owner`. The next
    number is `at` (None: the declared first number), or with `called` the number after `at`."""

    owner: Name
    column: Name | None
    at: int | None
    called: bool = False


@dataclass(slots=True)
class _Qualifier:
    """The schema prefix of all names of a file: "" for none, None before the first name is read."""

    text: str | None = None


@dataclass(frozen=True, slots=True)
class _Statement:
    """One statement: its tokens, its parser, and the mapping from a node to its place."""

    text: str
    file: str
    tokens: Sequence[Token]
    qualifier: _Qualifier

    @property
    def options(self) -> dict[int, tuple[int, int]]:
        """The parenthesised options after AS IDENTITY, which the parser only partly understands:
        offset of AS → positions of the parentheses in `tokens`."""
        found = {}
        for i, (word, identity, opening) in enumerate(
            zip(self.tokens, self.tokens[1:], self.tokens[2:], strict=False)
        ):
            said = word.token_type is TokenType.ALIAS and identity.text.upper() == "IDENTITY"
            if said and opening.token_type is TokenType.L_PAREN:
                found[word.start] = (i + 2, self._closing(i + 2))
        return found

    def _closing(self, opening: int) -> int:
        depth = 0
        for i, token in enumerate(self.tokens[opening:], opening):
            depth += (token.token_type is TokenType.L_PAREN) - (
                token.token_type is TokenType.R_PAREN
            )
            if not depth:
                return i
        raise self.place(self.tokens[opening].start).error(
            "( is not closed", cure="close it behind the options of the identity"
        )

    def options_behind(self, offset: int) -> Options:
        """The options of the first AS IDENTITY after `offset`."""
        first, last = self.options.get(self.keyword("AS", offset), (0, 0))
        return read_options(self.tokens[first + 1 : last], self.refuse)

    def parse(self) -> exp.Expr:
        parser = _DIALECT.parser(error_level=ErrorLevel.RAISE)
        try:
            with no_fallback_warnings():
                (tree,) = parser.parse(list(_without(self.tokens, self.options)), self.text)
        except ParseError as error:
            unlink_unfinished(error)
            raise self._syntax_error(error) from None
        except RecursionError:
            raise self.place(self.start).error(
                "this statement is nested too deeply", cure="write it with fewer parentheses"
            ) from None
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            # The parser itself fails with these errors on some invalid statements.
            raise self.place(self.start).error(
                f"this statement cannot be parsed: {error}", cure="correct its syntax"
            ) from error
        assert tree is not None
        return tree

    def _syntax_error(self, error: ParseError) -> Exception:
        """The error at the offending token. The parser reports its *last* character's place."""
        found = error.errors[0]
        end = (found["line"], found["col"])
        token = next((t for t in self.tokens if (t.line, t.col) == end), self.tokens[-1])
        place = self.place(token.start)
        line = self.text.split("\n")[place.line - 1].strip()
        problem = str(found["description"]).split(" but got", maxsplit=1)[0].lower()
        return place.error(
            f"syntax error at {token.text}: {problem}",
            cure=f"correct the line: {line}",
            name=token.text,
        )

    def place(self, offset: int) -> Place:
        return Place.at(self.text, offset, self.file)

    @property
    def start(self) -> int:
        return self.tokens[0].start

    def beginning(self) -> str:
        """The first words of the statement, in one line."""
        return " ".join(self.text[self.start : self.tokens[:10][-1].end + 1].split())

    def offset(self, node: exp.Expr) -> int:
        """Offset of the first identifier or literal of `node`, otherwise of the statement."""
        starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
        return min(starts, default=self.start)

    def keyword(self, word: str, after: int) -> int:
        """Offset of the first `word` from offset `after` on, or `after` if there is none."""
        for token in self.tokens[self._index(after) :]:
            if token.text.upper() == word and token.token_type not in _QUOTED:
                return token.start
        return after

    def behind(self, offset: int) -> Place:
        """Place of the token after the token at `offset`."""
        index = min(self._index(offset) + 1, len(self.tokens) - 1)
        return self.place(self.tokens[index].start)

    def behind_as(self) -> str:
        """The text after the first AS outside parentheses."""
        for token, following in self._outside():
            if token.token_type is TokenType.ALIAS:
                return self.text[following.start : self.tokens[-1].end + 1]
        return ""

    def outside_columns(self) -> Token:
        """The token after the list of columns, otherwise the token after CREATE."""
        for token, following in self._outside():
            if token.token_type is TokenType.R_PAREN:
                return following
        return self.tokens[1]

    def _outside(self) -> Iterator[tuple[Token, Token]]:
        """Tokens outside parentheses, each with the next token. The closing parenthesis of an
        outermost pair counts as outside."""
        depth = 0
        for token, following in pairwise(self.tokens):
            depth += (token.token_type is TokenType.L_PAREN) - (
                token.token_type is TokenType.R_PAREN
            )
            if not depth:
                yield token, following

    def _index(self, offset: int) -> int:
        return bisect_left(self.tokens, offset, key=lambda token: token.start)

    def name(self, node: exp.Expr | None) -> Name:
        """An identifier, folded to lower case unless it is quoted."""
        if not isinstance(node, exp.Identifier):
            what = node.sql("postgres") if node is not None else "nothing"
            self.refuse(what, self.offset(node) if node is not None else self.start, "write a name")
        text = node.name if node.args.get("quoted") else node.name.lower()
        return Name(text, self.place(self.offset(node)))

    def table(self, node: exp.Expr | None) -> Name:
        if not isinstance(node, exp.Table):
            what = node.sql(_DIALECT) if node is not None else "a reference to nothing"
            offset = self.offset(node) if node is not None else self.start
            self.refuse(what, offset, "write the name of a relation")
        schema = node.args.get("db")
        written = self.name(schema).text if schema else ""
        if self.qualifier.text is None:
            self.qualifier.text = written
        if node.args.get("catalog") or written != self.qualifier.text:
            cure = "relations live in one schema; write it before all names, or before none"
            what = f"the {'qualified' if schema else 'unqualified'} name {node.sql()}"
            self.refuse(what, self.offset(node), cure)
        return self.name(node.this)

    def names(self, nodes: Sequence[exp.Expr]) -> tuple[Name, ...]:
        return tuple(self.name(node) for node in nodes)

    def only(self, node: exp.Expr, parts: set[str], cure: str, at: int | None = None) -> None:
        """Refuse a node with parts other than `parts`, since these would be ignored silently."""
        for part, value in node.args.items():
            if value and part not in parts and not part.startswith("_"):
                written = node.sql(_DIALECT, comments=False)
                what = written if len(written) < 40 else part.upper()
                self.refuse(what, self.offset(node) if at is None else at, cure)

    def bare_index(self, node: exp.Expr, cure: str, at: int | None = None) -> None:
        """Refuse INCLUDE, USING INDEX … after PRIMARY KEY and UNIQUE."""
        if (parameters := node.args.get("include")) is not None:
            self.only(parameters, set(), cure, self.offset(node) if at is None else at)

    def refuse(self, what: str, offset: int, cure: str) -> NoReturn:
        raise self.place(offset).error(f"{what} is not supported here", cure=cure, name=what)


def _without(tokens: Sequence[Token], options: Mapping[int, tuple[int, int]]) -> Iterator[Token]:
    cut = [range(first, last + 1) for first, last in options.values()]
    return (token for i, token in enumerate(tokens) if not any(i in part for part in cut))


def _statements(text: str, file: str) -> Iterator[_Statement]:
    current: list[Token] = []
    qualifier = _Qualifier()
    for token in _without_orders_to_psql(tokenize(_DIALECT, text, file)):
        if token.token_type is not TokenType.SEMICOLON:
            current.append(token)
        elif current:
            yield _Statement(text, file, current, qualifier)
            current = []
    if current:
        yield _Statement(text, file, current, qualifier)


def _without_orders_to_psql(tokens: Sequence[Token]) -> list[Token]:
    r"""The tokens without the lines \restrict and \unrestrict, which pg_dump writes."""
    words: dict[int, list[str]] = {}
    for token in tokens:
        words.setdefault(token.line, []).append(token.text)
    orders = (["\\", "restrict"], ["\\", "unrestrict"])
    lines = {line for line, said in words.items() if said[:2] in orders}
    return [token for token in tokens if token.line not in lines]


def _is_silent(statement: _Statement) -> bool:
    """Can the statement be skipped because it does not affect rows?"""
    words = [token.text.upper() for token in statement.tokens]
    return (
        words[0] in _SILENT
        or words[:5] == ["SELECT", "PG_CATALOG", ".", "SET_CONFIG", "("]
        or (words[0] == "ALTER" and words[-3:-1] == ["OWNER", "TO"])
        or (words[:2] == ["ALTER", "SEQUENCE"] and "OWNED" in words[3:6])
    )


def _read(statement: _Statement, drafts: _Drafts) -> None:
    words = [token.text.upper() for token in statement.tokens]
    if any(words[: len(call)] == call for call in _SETVAL):
        drafts.restarts.append(_read_setval(statement))
        return
    if words[0] not in {"CREATE", "ALTER"}:
        statement.refuse(words[0], statement.start, _STATEMENTS)
    if words[1:2] == ["SEQUENCE"]:
        _read_sequence(statement, drafts)
        return
    tree = statement.parse()
    try:
        _read_tree(statement, tree, words, drafts)
    finally:
        unlink(tree)


def _read_tree(
    statement: _Statement, tree: exp.Expr, words: Sequence[str], drafts: _Drafts
) -> None:
    if isinstance(tree, exp.Command):
        _read_numbers(statement, drafts)
        return
    kind = str(tree.args.get("kind") or "").upper()
    if isinstance(tree, exp.Create) and kind == "TABLE":
        draft = _read_table(statement, tree, drafts)
        if drafts.relations.setdefault(draft.name.text, draft) is not draft:
            drafts.repeated.append(draft)
    elif isinstance(tree, exp.Create) and kind == "INDEX":
        drafts.indexes.append(_read_index(statement, tree))
    elif isinstance(tree, exp.Create) and kind == "VIEW" and words[1] == "MATERIALIZED":
        drafts.views.append(_read_view(statement, tree))
    elif isinstance(tree, exp.Alter) and kind == "TABLE":
        _read_alter(statement, tree, drafts)
    else:
        statement.refuse(" ".join(words[:2]), statement.start, _STATEMENTS)


# ---------------------------------------------------------------- numbers


def _read_sequence(statement: _Statement, drafts: _Drafts) -> None:
    """Read CREATE SEQUENCE or ALTER SEQUENCE … RESTART."""
    words = [token.text.upper() for token in statement.tokens]
    behind = (
        5 if words[2:5] == ["IF", "NOT", "EXISTS"] else 4 if words[2:4] == ["IF", "EXISTS"] else 2
    )
    end = behind + 1
    while words[end : end + 1] == ["."]:
        end += 2
    head = [*_DIALECT.tokenize("CREATE SEQUENCE"), *statement.tokens[behind:end]]
    tree = replace(statement, tokens=head).parse()
    if not isinstance(tree, exp.Create):
        _refuse_unread(statement)
    name = statement.table(tree.this)
    options = read_options(statement.tokens[end:], statement.refuse)
    if words[0] == "CREATE":
        drafts.sequences[name.text] = (name, options)
    elif options == Options(restart=True, restart_at=options.restart_at):
        drafts.restarts.append(_Restart(name, None, options.restart_at))
    else:
        statement.refuse(statement.beginning(), statement.start, "write ALTER SEQUENCE … RESTART")


def _read_setval(statement: _Statement) -> _Restart:
    """Read SELECT setval('sequence', n[, is_called])."""
    tree = statement.parse()
    (call, *others) = tree.expressions
    call = call.expression if isinstance(call, exp.Dot) else call
    arguments = [a.this if isinstance(a, exp.Cast) else a for a in call.expressions]
    name, at, called = (*arguments, exp.true())[:3] if len(arguments) in {2, 3} else (None,) * 3
    try:
        number = int(at.sql()) if at is not None else None
    except ValueError:
        number = None
    whole = isinstance(tree, exp.Select) and {k for k, v in tree.args.items() if v} == {
        "expressions"
    }
    fits = isinstance(name, exp.Literal) and name.is_string and isinstance(called, exp.Boolean)
    if not whole or others or number is None or not fits:
        what = statement.beginning()
        statement.refuse(what, statement.start, "write SELECT setval('table_column_seq', 42, true)")
    owner = Name(_last_name(arguments[0].name), statement.place(statement.start))
    return _Restart(owner, None, number, called == exp.true())


def _last_name(text: str) -> str:
    """The last part of a qualified name: `Name` for `schema."Name"`."""
    last = text.rpartition(".")[2]
    return last.strip('"') if last.startswith('"') else last.lower()


def _number(drafts: _Drafts) -> None:
    """Apply the options of sequences, and restarts, to the columns that use them."""
    for name, (place, options) in drafts.sequences.items():
        if name not in drafts.draws:
            raise place.place.error(
                f"sequence {name} is not supported here: no column takes its default from it",
                cure="leave it out, or declare a column GENERATED BY DEFAULT AS IDENTITY",
                name=name,
            )
        draft, column = drafts.draws[name]
        _renumber(draft, column, partial(_declared, options))
    for restart in drafts.restarts:
        draft, column = _restarted(restart, drafts)
        _renumber(draft, column, partial(_begun_at, restart))


def _declared(options: Options, _: Identity) -> Identity:
    return options.identity()


def _begun_at(restart: _Restart, identity: Identity) -> Identity:
    if restart.at is None:
        return identity
    return replace(identity, start=restart.at + identity.increment * restart.called)


def _renumber(draft: RelationDraft, name: str, change: Callable[[Identity], Identity]) -> None:
    for i, column in enumerate(draft.columns):
        if column.name.text == name and column.default is not None:
            default = replace(column.default, identity=change(column.default.identity))
            draft.columns[i] = replace(column, default=default)


def _restarted(restart: _Restart, drafts: _Drafts) -> tuple[RelationDraft, str]:
    """The relation and the column of a restart. Raises SchemaError."""
    owner = restart.owner.text
    if restart.column is None and owner in drafts.draws:
        return drafts.draws[owner]
    for draft in drafts.relations.values():
        for column in draft.columns:
            identity = column.default is not None and column.default.kind is DefaultKind.IDENTITY
            named = (draft.name.text, restart.column and restart.column.text)
            meant = (
                f"{draft.name.text}_{column.name.text}_seq" == owner
                if restart.column is None
                else (owner, column.name.text) == named
            )
            if identity and meant:
                return draft, column.name.text
    what = f"sequence {owner}" if restart.column is None else f"{owner}.{restart.column.text}"
    raise (restart.column or restart.owner).place.error(
        f"there is no identity column of {what}",
        cure="name a column that is GENERATED … AS IDENTITY, or its sequence table_column_seq",
        name=owner,
    )


def _read_numbers(statement: _Statement, drafts: _Drafts) -> None:
    """Read ALTER TABLE … ALTER COLUMN … ADD GENERATED … AS IDENTITY, or RESTART. The parser only
    understands the part before ADD or RESTART."""
    words = [token.text.upper() for token in statement.tokens]
    at = next((i for i, word in enumerate(words) if word in {"ADD", "RESTART"}), 0)
    if not at or words[:2] != ["ALTER", "TABLE"]:
        _refuse_unread(statement)
    head = [*statement.tokens[:at], *_DIALECT.tokenize("SET NOT NULL")]
    tree = replace(statement, tokens=head).parse()
    if isinstance(tree, exp.Command):
        _refuse_unread(statement)
    draft = _altered(statement, tree, drafts)
    (action,) = tree.args["actions"]
    if words[at] == "RESTART":
        options = read_options(statement.tokens[at:], statement.refuse)
        if options != Options(restart=True, restart_at=options.restart_at):
            statement.refuse(statement.beginning(), statement.start, "write RESTART WITH alone")
        column = statement.name(action.this)
        drafts.restarts.append(_Restart(draft.name, column, options.restart_at))
        return
    always = words[at + 2 : at + 3] == ["ALWAYS"]
    spelt = ["GENERATED", *(["ALWAYS"] if always else ["BY", "DEFAULT"]), "AS", "IDENTITY"]
    behind = at + 1 + len(spelt)
    start = statement.tokens[at].start
    _, last = statement.options.get(statement.keyword("AS", start), (0, behind - 1))
    if words[at + 1 : behind] != spelt or last + 1 != len(words):
        _refuse_unread(statement)
    options = statement.options_behind(start)
    _make_identity(statement, action, draft, options.identity(always=always))
    if options.name:
        drafts.draws[options.name] = (draft, statement.name(action.this).text)


def _make_identity(
    statement: _Statement, node: exp.AlterColumn, draft: RelationDraft, identity: Identity
) -> None:
    name = statement.name(node.this)
    for i, column in enumerate(draft.columns):
        if column.name.text == name.text:
            _check_single_default(column)
            default = Default(DefaultKind.IDENTITY, identity=identity)
            draft.columns[i] = replace(column, nullable=False, default=default)
            return
    raise name.place.error(
        f"{draft.name.text} has no column {name.text}",
        cure=f"its columns are: {', '.join(column.name.text for column in draft.columns)}",
        name=name.text,
    )


def _sequence_of(call: exp.Expr | None) -> str | None:
    """The sequence of a call nextval('…'::regclass); None for other expressions."""
    if not isinstance(call, exp.Anonymous) or call.name.lower() != "nextval":
        return None
    named = call.expressions[0] if call.expressions else None
    named = named.this if isinstance(named, exp.Cast) else named
    if not isinstance(named, exp.Literal):
        return None
    return _last_name(named.name)


def _refuse_unread(statement: _Statement) -> NoReturn:
    """Refuse a statement that the parser does not understand and returns as plain text."""
    tokens = statement.tokens
    words = [token.text.upper() for token in tokens]
    backtick = next((token for token in tokens if token.text == "`"), None)
    if backtick is not None:
        statement.refuse("the quote `", backtick.start, 'write names as they are, or "quoted"')
    with_data = next((n for n in (3, 2) if words[-n:] in _WITH_DATA), None)
    if with_data is not None:
        what = " ".join(words[-with_data:])
        statement.refuse(what, tokens[-with_data].start, f"leave out {what}")
    if words[0] == "CREATE" and words[1:2] in _READ:
        raise statement.place(statement.start).error(
            f"this CREATE {words[1]} is not understood",
            cure="correct its syntax",
            name=words[1],
        )
    statement.refuse(statement.beginning(), statement.start, _STATEMENTS)


def _read_table(statement: _Statement, tree: exp.Create, drafts: _Drafts) -> RelationDraft:
    if not isinstance(tree.this, exp.Schema):
        statement.refuse("CREATE TABLE without columns", statement.start, "declare the columns")
    cure = "declare a plain table: CREATE TABLE name (columns and constraints)"
    if tree.args.get("properties"):
        token = statement.outside_columns()
        statement.refuse(token.text.upper(), token.start, cure)
    statement.only(tree, {"this", "kind", "exists"}, cure, statement.start)
    draft = RelationDraft(statement.table(tree.this.this))
    for element in tree.this.expressions:
        if isinstance(element, exp.ColumnDef):
            _read_column(statement, element, draft, drafts)
        elif isinstance(element, exp.Identifier):
            raise statement.place(statement.offset(element)).error(
                f"column {element.name} has no type",
                cure="give it one, such as INTEGER",
                name=element.name,
            )
        else:
            _read_constraint(statement, element, draft, drafts)
    return draft


def _read_column(
    statement: _Statement, node: exp.ColumnDef, draft: RelationDraft, drafts: _Drafts
) -> None:
    name = statement.name(node.this)
    start = statement.offset(node.this)
    kind = node.args.get("kind")
    if not isinstance(kind, exp.DataType):
        raise name.place.error(
            f"column {name.text} has no type", cure="give it one, such as INTEGER", name=name.text
        )
    statement.only(node, {"this", "kind", "constraints"}, "leave it out", start)
    column = ColumnDraft(name, read_type(kind, statement.behind(start)), note=type_note(kind))
    if is_serial(kind):
        column = replace(column, nullable=False, default=Default(DefaultKind.IDENTITY))
    for constraint in node.args.get("constraints") or ():
        column = _column_constraint(statement, constraint, column, draft, drafts)
    draft.columns.append(column)


def _column_constraint(
    statement: _Statement,
    node: exp.Expr,
    column: ColumnDraft,
    draft: RelationDraft,
    drafts: _Drafts,
) -> ColumnDraft:
    """Apply one inline constraint and return the changed column."""
    name = column.name
    start = statement.offset(node.parent.this) if node.parent else statement.start
    kind = node.kind if isinstance(node, exp.ColumnConstraint) else node
    match kind:
        case exp.PrimaryKeyColumnConstraint():
            statement.only(kind, {"include"}, "write PRIMARY KEY alone", start)
            statement.bare_index(kind, "write PRIMARY KEY alone", start)
            draft.primary_keys.append((name,))
        case exp.UniqueColumnConstraint():
            statement.only(kind, {"include"}, "write UNIQUE alone", start)
            statement.bare_index(kind, "write UNIQUE alone", start)
            label = statement.name(node.this) if node.this else None
            drafts.indexes.append(IndexDraft(label, draft.name, ((name, False),), unique=True))
        case exp.Reference():
            label = statement.name(node.this) if node.this else None
            draft.foreign_keys.append(_foreign_key(statement, label, (name,), kind))
        case exp.NotNullColumnConstraint():
            nullable = bool(kind.args.get("allow_null"))
            return replace(column, nullable=nullable)
        case exp.GeneratedAsIdentityColumnConstraint() | exp.AutoIncrementColumnConstraint():
            cure = "write GENERATED BY DEFAULT AS IDENTITY"
            statement.only(kind, {"this"}, cure, statement.keyword("IDENTITY", start))
            _check_single_default(column)
            options = statement.options_behind(start)
            if options.name:
                drafts.draws[options.name] = (draft, name.text)
            identity = options.identity(always=kind.args.get("this") is True)
            numbers = Default(DefaultKind.IDENTITY, identity=identity)
            return replace(column, nullable=False, default=numbers)
        case exp.DefaultColumnConstraint():
            _check_single_default(column)
            if (sequence := _sequence_of(kind.this)) is not None:
                drafts.draws[sequence] = (draft, name.text)
                return replace(column, nullable=False, default=Default(DefaultKind.IDENTITY))
            place = statement.behind(statement.keyword("DEFAULT", start))
            default = read_default(kind.this, column.type, place)
            return replace(column, default=default)
        case _:
            _refuse_constraint(statement, node, start)
    return column


def _check_single_default(column: ColumnDraft) -> None:
    if column.default is not None:
        raise column.name.place.error(
            f"column {column.name.text} has two defaults",
            cure="leave one; SERIAL and IDENTITY are defaults too",
            name=column.name.text,
        )


_REFUSED: dict[type[exp.Expr | exp.ColumnConstraintKind], tuple[str, str]] = {
    exp.CheckColumnConstraint: ("CHECK", "check the values in the application"),
    exp.CollateColumnConstraint: ("COLLATE", "text is ordered by code point; leave it out"),
    exp.ComputedColumnConstraint: ("GENERATED", "compute the value in queries or when writing"),
    exp.ExcludeColumnConstraint: ("EXCLUDE", "use UNIQUE, or check in the application"),
    exp.CommentColumnConstraint: ("COMMENT", "write a -- comment"),
    exp.LikeProperty: ("LIKE", "write the columns out"),
}


def _refuse_constraint(statement: _Statement, node: exp.Expr, after: int) -> NoReturn:
    kind = node.kind if isinstance(node, exp.ColumnConstraint) else node
    word, cure = _REFUSED.get(type(kind), (kind.sql("postgres"), "leave it out"))
    statement.refuse(word, statement.keyword(word, after), cure)


def _read_constraint(
    statement: _Statement,
    node: exp.Expr,
    draft: RelationDraft,
    drafts: _Drafts,
    label: Name | None = None,
) -> None:
    """Read a table constraint, in CREATE TABLE or ALTER TABLE."""
    match node:
        case exp.Constraint():
            named = statement.name(node.this)
            for part in node.expressions:
                _read_constraint(statement, part, draft, drafts, named)
        case exp.PrimaryKey():
            statement.only(node, {"expressions", "include"}, "write PRIMARY KEY (columns)")
            statement.bare_index(node, "write PRIMARY KEY (columns)")
            draft.primary_keys.append(statement.names(node.expressions))
        case exp.UniqueColumnConstraint():
            statement.only(node, {"this", "include"}, "write UNIQUE (columns); NULLs are distinct")
            statement.bare_index(node, "write UNIQUE (columns)")
            listed = node.this.expressions if node.this is not None else ()
            columns = tuple((name, False) for name in statement.names(listed))
            drafts.indexes.append(IndexDraft(label, draft.name, columns, unique=True))
        case exp.ForeignKey():
            statement.only(node, {"expressions", "reference"}, "put the options behind REFERENCES")
            columns_ = statement.names(node.expressions)
            reference = node.args.get("reference")
            if reference is None:
                offset = statement.offset(node)
                statement.refuse("FOREIGN KEY alone", offset, "write REFERENCES relation behind it")
            draft.foreign_keys.append(_foreign_key(statement, label, columns_, reference))
        case _:
            _refuse_constraint(statement, node, statement.start)


_ON_DELETE = {
    "ON DELETE RESTRICT": OnDelete.RESTRICT,
    "ON DELETE NO ACTION": OnDelete.RESTRICT,
    "ON DELETE CASCADE": OnDelete.CASCADE,
    "ON DELETE SET NULL": OnDelete.SET_NULL,
}
_NO_EFFECT = {
    "ON UPDATE RESTRICT",
    "ON UPDATE NO ACTION",
    "MATCH SIMPLE",
    "DEFERRABLE",
    "NOT DEFERRABLE",
    "INITIALLY DEFERRED",
    "INITIALLY IMMEDIATE",
}


def _foreign_key(
    statement: _Statement, label: Name | None, columns: tuple[Name, ...], node: exp.Reference
) -> ForeignKeyDraft:
    target = node.this
    listed: tuple[Name, ...] = ()
    if isinstance(target, exp.Schema):
        listed = statement.names(target.expressions)
        target = target.this
    parent = statement.table(target)
    on_delete = OnDelete.RESTRICT
    for option in node.args.get("options") or ():
        text = " ".join(str(option).upper().split())
        if text in _ON_DELETE:
            on_delete = _ON_DELETE[text]
        elif text not in _NO_EFFECT:
            _refuse_option(statement, text, statement.offset(target))
    return ForeignKeyDraft(label, columns, parent, listed, on_delete)


def _refuse_option(statement: _Statement, text: str, parent: int) -> NoReturn:
    if text.startswith("ON UPDATE"):
        cure = "keys do not change under their children; write ON UPDATE RESTRICT or nothing"
        # ON may also precede DELETE, so look for UPDATE.
        statement.refuse(text, statement.keyword("UPDATE", parent), cure)
    cure = "write ON DELETE RESTRICT, NO ACTION, CASCADE or SET NULL"
    if text.startswith("MATCH"):
        cure = f"leave out {text}"
    statement.refuse(text, statement.keyword(text.split()[1], parent), cure)


def _read_index(statement: _Statement, tree: exp.Create) -> IndexDraft:
    cure = "write CREATE [UNIQUE] INDEX name ON relation (columns) INCLUDE (columns)"
    index = tree.this
    statement.only(tree, {"this", "kind", "unique", "exists", "concurrently"}, cure)
    statement.only(index, {"this", "table", "params"}, cure)
    parameters = index.args["params"]
    using = parameters.args.get("using")
    if using is not None and using.name.lower() != "btree":
        statement.refuse(f"USING {using.name}", statement.keyword("USING", statement.start), cure)
    relation = statement.table(index.args["table"])
    start = statement.offset(index.args["table"])
    for word in ("where", "tablespace"):
        if parameters.args.get(word):
            statement.refuse(word.upper(), statement.keyword(word.upper(), start), cure)
    statement.only(parameters, {"using", "columns", "include"}, cure)
    columns = tuple(_index_part(statement, part) for part in parameters.args.get("columns") or ())
    include = statement.names(parameters.args.get("include") or ())
    name = statement.name(index.this) if index.this else None
    return IndexDraft(name, relation, columns, include, bool(tree.args.get("unique")))


def _index_part(statement: _Statement, part: exp.Expr) -> tuple[Name, bool]:
    node = part.this if isinstance(part, exp.Ordered) else part
    if not isinstance(node, exp.Column):
        cure = "index columns only; put what you compute into a column"
        statement.refuse(node.sql("postgres"), statement.offset(part), cure)
    name = statement.name(node.this)
    start = statement.offset(part)
    nulls = statement.keyword("NULLS", start)
    if nulls > start:
        cure = "NULLs come first in ascending and last in descending order; leave it out"
        statement.refuse("NULLS", nulls, cure)
    return name, bool(isinstance(part, exp.Ordered) and part.args.get("desc"))


def _read_view(statement: _Statement, tree: exp.Create) -> ViewDraft:
    cure = "write CREATE MATERIALIZED VIEW name WITH (refresh = 'deferred', …) AS SELECT …"
    statement.only(tree, {"this", "kind", "expression", "exists", "properties"}, cure)
    if isinstance(tree.this, exp.Schema):
        statement.refuse(
            "a list of columns", statement.offset(tree.this), "name them in the SELECT"
        )
    name = statement.table(tree.this)
    options = dict(_options(statement, tree, cure))
    if options.get("refresh") not in set(Refresh):
        raise name.place.error(
            f"view {name.text} does not say that it is refreshed later",
            cure="say WITH (refresh = 'deferred'), or 'recompute' for what cannot be kept from"
            " changes; views that commits keep are chosen from the workload",
            name=name.text,
        )
    refresh = Refresh(options["refresh"])
    try:
        interval_s = _seconds(options["interval"]) if "interval" in options else DEFAULT_INTERVAL_S
    except ValueError as error:
        raise name.place.error(
            f"view {name.text}: {error}",
            cure="write '5 s', '100 ms', '1 min' or '2 h'",
            name=name.text,
        ) from None
    group = options.get("group", DEFAULT_GROUP)
    view = DeclaredView(name.text, statement.behind_as(), interval_s, group, refresh)
    return ViewDraft(name, view)


def _options(statement: _Statement, tree: exp.Create, cure: str) -> Iterator[tuple[str, str]]:
    """The names and values of the options in WITH (…). Refuses unknown and repeated options."""
    seen = set()
    properties = tree.args.get("properties")
    for item in properties.expressions if properties else ():
        if isinstance(item, exp.MaterializedProperty):
            continue
        name = item.name.lower() if isinstance(item, exp.Property) else ""
        if name not in {"refresh", "interval", "group"} or name in seen:
            what = item.sql(_DIALECT)
            statement.refuse(what, statement.keyword("WITH", statement.start), cure)
        seen.add(name)
        yield name, item.args["value"].name


def _seconds(text: str) -> float:
    """The seconds of '5 s', '100 ms', '1 min' or '2 h'. Raises ValueError."""
    found = _INTERVAL.fullmatch(text)
    if found is None or not float(found[1]):
        raise ValueError(f"{text!r} is no interval")
    return float(found[1]) * _UNITS[found[2]]


def _read_alter(statement: _Statement, tree: exp.Alter, drafts: _Drafts) -> None:
    draft = _altered(statement, tree, drafts)
    for action in tree.args["actions"]:
        if isinstance(action, exp.ColumnDef):
            offset = statement.offset(action)
            statement.refuse("ADD COLUMN", offset, "put the column into CREATE TABLE")
        default = action.args.get("default") if isinstance(action, exp.AlterColumn) else None
        if (sequence := _sequence_of(default)) is not None:
            _make_identity(statement, action, draft, Identity())
            drafts.draws[sequence] = (draft, statement.name(action.this).text)
            continue
        if not isinstance(action, exp.AddConstraint):
            statement.refuse(action.sql("postgres"), statement.start, _STATEMENTS)
        for constraint in action.expressions:
            _read_constraint(statement, constraint, draft, drafts)


def _altered(statement: _Statement, tree: exp.Expr, drafts: _Drafts) -> RelationDraft:
    name = statement.table(tree.this)
    draft = drafts.relations.get(name.text)
    if draft is None:
        raise name.place.error(
            f"ALTER TABLE of {name.text}, which is not declared above",
            cure="put its CREATE TABLE first",
            name=name.text,
        )
    return draft
