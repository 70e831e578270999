"""Trees of MySQL, SQLite and SQL Server in the form that the reader of PostgreSQL's trees reads.

Clauses without an effect on rows (ENGINE, character sets, file groups, KEY as an index) are taken
out, or become the declaration that PostgreSQL has for them. Everything else stays, and is read or
refused by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.schema.ddl.drafts import Drafts
from hornbeam_server.schema.ddl.expressions import parts_of, token_like
from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.ddl.statement import Statement
from hornbeam_server.schema.drafts import IndexDraft, RelationDraft
from hornbeam_server.schema.model import Default, DefaultKind

_WITHOUT_EFFECT = (
    exp.BinaryColumnConstraint,
    exp.CharacterSetColumnConstraint,
    exp.CollateColumnConstraint,
    exp.CommentColumnConstraint,
    exp.NotForReplicationColumnConstraint,
    exp.OnUpdateColumnConstraint,
    exp.ZeroFillColumnConstraint,
)
"""Constraints of columns that do not change what a column holds. docs/sql.md says what becomes of
collations (text is ordered by code point) and of ON UPDATE CURRENT_TIMESTAMP (nothing)."""
_NOISE = {"ROWGUIDCOL", "SPARSE", "PERSISTED", "CLUSTERED", "NONCLUSTERED", "ASC"}
"""Words of SQL Server that its parser does not know everywhere."""
_BEHIND_TABLE = (["WITHOUT", "ROWID"], ["STRICT"])
"""Options of SQLite behind CREATE TABLE, which its parser does not know."""
_CLOCK_CALLS = {"now", "getdate", "getutcdate", "sysdatetime", "sysutcdatetime", "datetime"}
_CLOCK_ARGUMENTS = {(), ("now",), ("now", "localtime")}


def readable_tokens(tokens: Sequence[Token], source: Source) -> Sequence[Token]:
    """The tokens of a statement as the parser understands them: without the clauses that say where
    and how a table is stored (CLUSTERED, WITH (…), ON [PRIMARY], WITHOUT ROWID)."""
    if tokens[0].token_type is TokenType.CREATE:
        tokens = list(_with_stored(tokens, source))
    words = [token.text.upper() for token in tokens]
    if source is Source.MYSQL:
        return tokens
    if source is Source.POSTGRES:
        return _without_partition(tokens, words)
    if source is Source.SQLITE:
        cut = next((len(end) for end in _BEHIND_TABLE if words[-len(end) :] == end), 0)
        if words[:1] != ["CREATE"]:
            return tokens
        return list(_with_single_types(tokens[: len(tokens) - cut]))
    if words[:2] == ["ALTER", "TABLE"] and "FOR" in words and "DEFAULT" in words:
        return _set_default(tokens, words)
    return list(_without_storage(tokens, words))


def _is_only(tokens: Sequence[Token], words: Sequence[str], at: int) -> bool:
    """Is the token the word ONLY behind ON, and not a name in quotes?"""
    quoted = tokens[at].token_type is TokenType.IDENTIFIER
    return not quoted and words[at - 1 : at + 1] == ["ON", "ONLY"]


def _with_stored(tokens: Sequence[Token], source: Source) -> Iterator[Token]:
    """The tokens of a CREATE TABLE with STORED behind each generated column. Files may say VIRTUAL,
    or, except for PostgreSQL, neither."""
    closings = {part.closing for part in parts_of(tokens) if part.generated}
    at = 0
    while at < len(tokens):
        yield tokens[at]
        at += 1
        if at - 1 in closings and at < len(tokens):
            word = tokens[at].text.upper()
            virtual = word == "VIRTUAL"
            if virtual or (word != "STORED" and source in {Source.MYSQL, Source.SQLITE}):
                yield token_like(TokenType.VAR, "STORED", tokens[at])
            at += virtual


def _without_partition(tokens: Sequence[Token], words: Sequence[str]) -> Sequence[Token]:
    """CREATE TABLE without PARTITION BY behind its columns, CREATE INDEX without ON ONLY."""
    if words[0] != "CREATE" or "(" not in words:
        return tokens
    if "INDEX" in words[:3]:
        only = next((at for at in range(1, len(words)) if _is_only(tokens, words, at)), 0)
        return [*tokens[:only], *tokens[only + 1 :]] if only else tokens
    opening = words.index("(")
    behind = _closing(words, opening) + 1
    divides = " ".join(words[behind : behind + 2]).startswith("PARTITION BY")
    return tokens[:behind] if divides else tokens


_NO_COLUMN = {"CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"}
_BEHIND_TYPE = _NO_COLUMN | {"NOT", "NULL", "DEFAULT", "COLLATE", "REFERENCES", "GENERATED", "AS"}
_AFFINITIES = (
    ("INT", "BIGINT"), ("CHAR", "TEXT"), ("CLOB", "TEXT"), ("TEXT", "TEXT"), ("BLOB", "BLOB"),
    ("REAL", "DOUBLE"), ("FLOA", "DOUBLE"), ("DOUB", "DOUBLE"),
)  # fmt: skip
"""A part of the name of a type, and the type that a column gets by SQLite's rules of affinity."""


def _with_single_types(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens with one word for each type of several words, such as BLOB SUB_TYPE TEXT: SQLite
    takes any words for a type."""
    at, depth = 0, 0
    while at < len(tokens):
        begins = depth == 1 and tokens[at - 1].token_type in {TokenType.L_PAREN, TokenType.COMMA}
        depth += (tokens[at].token_type is TokenType.L_PAREN) - (
            tokens[at].token_type is TokenType.R_PAREN
        )
        yield tokens[at]
        at += 1
        if begins and (_quoted(tokens[at - 1]) or tokens[at - 1].text.upper() not in _NO_COLUMN):
            words = _words_of_type(tokens[at:])
            name = " ".join(token.text.upper() for token in words)
            kind = next((kind for part, kind in _AFFINITIES if part in name), "")
            if len(words) > 1 and kind:
                yield from (token_like(t.token_type, t.text, words[0]) for t in _tokens_of(kind))
                at += len(words)


def _words_of_type(tokens: Sequence[Token]) -> Sequence[Token]:
    for number, token in enumerate(tokens):
        plain = token.text.isidentifier() and token.token_type is not TokenType.STRING
        if not plain or (token.text.upper() in _BEHIND_TYPE and not _quoted(token)):
            return tokens[:number]
    return tokens


def _tokens_of(text: str) -> Sequence[Token]:
    return Source.SQLITE.dialect.tokenize(text)


def _quoted(token: Token) -> bool:
    return token.token_type is TokenType.IDENTIFIER


def _without_storage(tokens: Sequence[Token], words: Sequence[str]) -> Iterator[Token]:
    at, altered = 0, words[:2] == ["ALTER", "TABLE"]
    while at < len(tokens):
        behind = words[at - 1] if at else ""
        here = words[at : at + 2]
        if words[at] in _NOISE and tokens[at].token_type is not TokenType.IDENTIFIER:
            at += 1
        elif here == ["WITH", "("] and behind == ")":
            at = _closing(words, at + 1) + 1
        elif _places(tokens, words, at) or (altered and here in _CHECKS):
            at += 2
        else:
            yield tokens[at]
            at += 1


_CHECKS = (["WITH", "CHECK"], ["WITH", "NOCHECK"])
"""Words before ADD CONSTRAINT."""


def _places(tokens: Sequence[Token], words: Sequence[str], at: int) -> bool:
    """Does ON [file group] begin here, behind a list of columns, or TEXTIMAGE_ON [file group]?"""
    named = [token.token_type for token in tokens[at + 1 : at + 2]] == [TokenType.IDENTIFIER]
    behind_columns = words[at] == "ON" and words[at - 1 : at] == [")"]
    return named and (behind_columns or words[at] == "TEXTIMAGE_ON")


def _closing(words: Sequence[str], opening: int) -> int:
    depth = 0
    for at in range(opening, len(words)):
        depth += (words[at] == "(") - (words[at] == ")")
        if not depth:
            return at
    return len(words) - 1


def _set_default(tokens: Sequence[Token], words: Sequence[str]) -> Sequence[Token]:
    """ALTER TABLE t ALTER COLUMN c SET DEFAULT x, for ALTER TABLE t ADD … DEFAULT x FOR c."""
    default, column = words.index("DEFAULT"), len(words) - 1 - words[::-1].index("FOR")
    name = next((i for i, word in enumerate(words) if i > 1 and word in {"ADD", "WITH"}), 2)
    dialect = Source.SQLSERVER.dialect
    changed, set_ = dialect.tokenize("ALTER COLUMN"), dialect.tokenize("SET")
    behind = tokens[column + 1 :]
    return [*tokens[:name], *changed, *behind, *set_, *tokens[default:column]]


def make_readable(statement: Statement, tree: exp.Expr, drafts: Drafts) -> None:
    """Change the tree of a CREATE or ALTER statement into the form of PostgreSQL's trees."""
    if statement.source is Source.POSTGRES:
        return
    for default in list(tree.find_all(exp.DefaultColumnConstraint)):
        default.set("this", _default(default.this))
    for change in list(tree.find_all(exp.AlterColumn)):
        if change.args.get("default") is not None:
            change.set("default", _default(change.args["default"]))
    for column in list(tree.find_all(exp.ColumnDef)):
        _make_column_readable(column, statement.source)
    if isinstance(tree, exp.Create):
        _make_create_readable(statement, tree, drafts)
    elif isinstance(tree, exp.Alter):
        _make_alter_readable(statement, tree, drafts)


def _make_create_readable(statement: Statement, tree: exp.Create, drafts: Drafts) -> None:
    kind = str(tree.args.get("kind") or "").upper()
    if kind.endswith("INDEX"):
        tree.set("kind", "INDEX")
        parameters = tree.this.args.get("params")
        for part in ("with_storage", "on"):
            if parameters is not None:
                parameters.set(part, None)
        return
    properties = tree.args.get("properties")
    if properties is not None and not list(properties.find_all(exp.TemporaryProperty)):
        tree.set("properties", None)
    if isinstance(tree.this, exp.Schema):
        table = statement.table(tree.this.this)
        kept = [
            element
            for element in tree.this.expressions
            if not isinstance(element, exp.IndexColumnConstraint)
            or not _read_key(statement, element, RelationDraft(table), drafts)
        ]
        made = [_column(e) if isinstance(e, exp.Identifier) else _constraint(e) for e in kept]
        tree.this.set("expressions", made)


def _column(name: exp.Identifier) -> exp.ColumnDef:
    """A column without a type, which SQLite allows: it holds any text."""
    return exp.ColumnDef(this=name, kind=exp.DataType(this=exp.DType.TEXT))


def _make_alter_readable(statement: Statement, tree: exp.Alter, drafts: Drafts) -> None:
    for action in tree.args["actions"]:
        if not isinstance(action, exp.AddConstraint):
            continue
        owner = RelationDraft(statement.table(tree.this))
        kept = [
            each
            for each in action.expressions
            if not isinstance(each, exp.IndexColumnConstraint)
            or not _read_key(statement, each, owner, drafts)
        ]
        action.set("expressions", [_constraint(each) for each in kept])


def _read_key(
    statement: Statement, node: exp.IndexColumnConstraint, owner: RelationDraft, drafts: Drafts
) -> bool:
    """Read KEY name (columns) of MySQL as an index of the relation. Returns True."""
    line = statement.place(statement.offset(node)).line
    columns = list(_key_columns(node))
    kind = str(node.args.get("kind") or "").upper()
    if kind or not columns:
        drafts.notes.append(f"passed over: {kind or 'a'} KEY in line {line}")
        return True
    if any(isinstance(part.find(exp.ColumnPrefix), exp.ColumnPrefix) for part in node.expressions):
        drafts.notes.append(f"the KEY in line {line} indexes whole columns, not their beginnings")
    with drafts.problems.collect((owner.name.text, "")):
        parts = tuple((statement.name(name), descending) for name, descending in columns)
        name = statement.name(node.this) if node.this else None
        drafts.indexes.append(IndexDraft(name, owner.name, parts))
    return True


def _key_columns(node: exp.Expr) -> Iterator[tuple[exp.Expr, bool]]:
    """The names of the columns of a key, and whether they descend."""
    for part in node.expressions:
        name = _identifier(part)
        if name is not None:
            yield name, bool(isinstance(part, exp.Ordered) and part.args.get("desc"))


def _identifier(part: exp.Expr) -> exp.Identifier | None:
    """The name in a column, in a part of an index, or in the beginning of a column."""
    while isinstance(part, exp.Ordered | exp.Column | exp.ColumnPrefix):
        part = part.this
    return part if isinstance(part, exp.Identifier) else None


def _constraint(node: exp.Expr) -> exp.Expr:
    """A constraint of a table with plain names as columns."""
    match node:
        case exp.Constraint():
            # CONSTRAINT a UNIQUE KEY b (…) has two names; the first is that of the constraint.
            parts = [_constraint(part) for part in node.expressions]
            inner = [p.expressions[0] if isinstance(p, exp.Constraint) else p for p in parts]
            node.set("expressions", inner)
        case exp.PrimaryKey():
            node.set("expressions", _plain(node.expressions))
            node.set("include", None)
        case exp.UniqueColumnConstraint(this=exp.Schema() as columns):
            listed = exp.Schema(expressions=_plain(columns.expressions))
            unique = exp.UniqueColumnConstraint(this=listed)
            if columns.this is None:
                return unique
            return exp.Constraint(this=columns.this, expressions=[unique])
    return node


def _plain(parts: Sequence[exp.Expr]) -> list[exp.Expr]:
    return [_identifier(part) or part for part in parts]


def _make_column_readable(node: exp.ColumnDef, source: Source) -> None:
    constraints = [
        each
        for each in node.args.get("constraints") or ()
        if not isinstance(each.args.get("kind", each), _WITHOUT_EFFECT)
    ]
    for each in constraints:
        kind = each.args.get("kind")
        if isinstance(kind, exp.PrimaryKeyColumnConstraint | exp.UniqueColumnConstraint):
            kind.set("include", None)
    if source is Source.SQLITE and _is_rowid(node, constraints):
        constraints.append(exp.ColumnConstraint(kind=exp.AutoIncrementColumnConstraint()))
    if node.args.get("kind") is not None and _is_boolean(node.args["kind"], source):
        for each in constraints:
            _make_default_boolean(each)
    node.set("constraints", constraints)


def _is_boolean(kind: exp.Expr, source: Source) -> bool:
    return isinstance(kind, exp.DataType) and (
        kind.this in {exp.DType.BOOLEAN, exp.DType.BIT}
        or (source is Source.MYSQL and kind.this is exp.DType.TINYINT)
    )


def _make_default_boolean(constraint: exp.Expr) -> None:
    """Change DEFAULT 1 of a boolean column into DEFAULT '1', which is read as true."""
    kind = constraint.args.get("kind")
    if isinstance(kind, exp.DefaultColumnConstraint):
        value = kind.this
        if isinstance(value, exp.Literal) and not value.is_string:
            kind.set("this", exp.Literal.string(value.name))


def _is_rowid(node: exp.ColumnDef, constraints: Sequence[exp.Expr]) -> bool:
    """Is the column an INTEGER PRIMARY KEY, which SQLite numbers without AUTOINCREMENT?"""
    kinds = [each.args.get("kind") for each in constraints]
    kind = node.args.get("kind")
    return (
        isinstance(kind, exp.DataType)
        and kind.this is exp.DType.INT
        and any(isinstance(each, exp.PrimaryKeyColumnConstraint) for each in kinds)
        and not any(isinstance(each, exp.AutoIncrementColumnConstraint) for each in kinds)
    )


def _default(node: exp.Expr) -> exp.Expr:
    """A default in PostgreSQL's words: without parentheses, N and b, with the clock by its name."""
    while isinstance(node, exp.Paren):
        node = node.this
    match node:
        case exp.National():
            return exp.Literal.string(node.name)
        case exp.BitString():
            return exp.Literal.number(int(node.name, 2))
        case exp.Anonymous() if node.name.lower() in _CLOCK_CALLS:
            said = tuple(argument.name.lower() for argument in node.expressions)
            return exp.CurrentTimestamp() if said in _CLOCK_ARGUMENTS else node
        case exp.CurrentTimestamp():
            return exp.CurrentTimestamp()
    return node


def rename_taken_indexes(drafts: Drafts) -> None:
    """Leave the name of an index to the builder if it is taken: MySQL and SQL Server have a name
    space of indexes for each table."""
    taken = set(drafts.relations)
    for position, index in enumerate(drafts.indexes):
        if index.name is not None and index.name.text in taken:
            drafts.indexes[position] = replace(index, name=None)
        elif index.name is not None:
            taken.add(index.name.text)


def next_number(tree: exp.Expr) -> int | None:
    """The table option AUTO_INCREMENT = n."""
    option = tree.find(exp.AutoIncrementProperty)
    return int(option.name) if option is not None and option.name.isdecimal() else None


def set_next_number(number: int, draft: RelationDraft) -> None:
    """Let the identity column of a relation begin with `number`."""
    for position, column in enumerate(draft.columns):
        default = column.default
        if default is not None and default.kind is DefaultKind.IDENTITY:
            identity = replace(default.identity, start=number)
            numbered = Default(DefaultKind.IDENTITY, identity=identity)
            draft.columns[position] = replace(column, default=numbered)
