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
from hornbeam_server.schema.ddl.expressions import is_word, parts_of, token_like
from hornbeam_server.schema.ddl.keys import beginnings, column_of, note_of_beginnings, read_keys
from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.ddl.statement import Statement
from hornbeam_server.schema.drafts import Name, RelationDraft
from hornbeam_server.schema.model import Default, DefaultKind
from hornbeam_server.schema.trees import nodes_of

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
_BITS = ["BIT", "VARYING"]
"""A type of PostgreSQL whose second word its parser does not know."""
_VALIDITY = (["NOT", "VALID"], ["NO", "INHERIT"])
_QUOTED = {TokenType.IDENTIFIER, TokenType.STRING}
_CLOCK_CALLS = {"now", "getdate", "getutcdate", "sysdatetime", "sysutcdatetime", "datetime"}
_CLOCK_ARGUMENTS = {(), ("now",), ("now", "localtime")}


def readable_tokens(tokens: Sequence[Token], source: Source) -> Sequence[Token]:
    """The tokens of a statement as the parser understands them: without the clauses that say where
    and how a table is stored (CLUSTERED, WITH (…), ON [PRIMARY], WITHOUT ROWID)."""
    if tokens[0].token_type is TokenType.CREATE:
        tokens = list(_with_stored(tokens, source))
    words = [token.text.upper() for token in tokens]
    if source is Source.MYSQL:
        return _plain_index(tokens, words) if "INDEX" in words[:3] else tokens
    if source is Source.POSTGRES:
        bits = [token for at, token in enumerate(tokens) if words[at - 1 : at + 1] != _BITS]
        known = list(_without_validity(bits))
        return _of_rows(known, [token.text.upper() for token in known])
    if source is Source.SQLITE:
        cut = next((len(end) for end in _BEHIND_TABLE if words[-len(end) :] == end), 0)
        if words[:1] != ["CREATE"]:
            return tokens
        return list(_with_single_types(tokens[: len(tokens) - cut]))
    if words[:2] == ["ALTER", "TABLE"] and "FOR" in words and "DEFAULT" in words:
        return _set_default(tokens, words)
    return list(_without_storage(tokens, words))


def _without_validity(tokens: Sequence[Token]) -> Iterator[Token]:
    """The tokens of a table without NOT VALID and NO INHERIT behind its constraints. Every
    constraint holds for the rows that are stored, and no relation inherits it."""
    words = ["" if token.token_type in _QUOTED else token.text.upper() for token in tokens]
    of_constraints = {"ALTER": 0, "CREATE": 1}.get(words[0]) if "TABLE" in words[:3] else None
    depth = cut = 0
    for at, token in enumerate(tokens):
        if depth == of_constraints and words[at : at + 2] in _VALIDITY:
            cut = at + 2
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if at >= cut:
            yield token


def _plain_index(tokens: Sequence[Token], words: Sequence[str]) -> Sequence[Token]:
    """CREATE INDEX of MySQL without USING, options, and the lengths of beginnings of columns."""
    if words[0] != "CREATE" or "(" not in words:
        return tokens
    opening = words.index("(")
    using = next((at for at in range(opening) if is_word(tokens[at], "USING")), opening)
    cut = {using, using + 1} if using < opening else set[int]()
    cut |= {at for begin in beginnings(tokens) for at in range(begin, begin + 3)}
    return [tokens[at] for at in range(_closing(words, opening) + 1) if at not in cut]


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


def _of_rows(tokens: Sequence[Token], words: Sequence[str]) -> Sequence[Token]:
    """CREATE TABLE, ALTER TABLE and CREATE INDEX of PostgreSQL without what says how the rows are
    stored: UNLOGGED, PARTITION BY, WITH (…), TABLESPACE, ON ONLY."""
    kept = list(_without_options(tokens, words)) if _STORED & set(words[1:3]) else tokens
    words = [token.text.upper() for token in kept]
    if words[0] != "CREATE" or "(" not in words:
        return kept
    if "INDEX" in words[:3]:
        only = next((at for at in range(1, len(words)) if _is_only(kept, words, at)), 0)
        return [*kept[:only], *kept[only + 1 :]] if only else kept
    behind = _closing(words, words.index("(")) + 1
    said = " ".join(words[behind : behind + 2])
    divided = "TABLE" in words[:3] and said.startswith(_BEHIND_COLUMNS)
    whole = kept[:behind] if divided else kept
    return [whole[0], *whole[2:]] if words[1:3] == ["UNLOGGED", "TABLE"] else whole


_STORED = {"TABLE", "INDEX"}
_BEHIND_COLUMNS = ("PARTITION BY", "WITHOUT OIDS", "USING HEAP")
"""Words behind the columns of a table of PostgreSQL that do not change its rows."""


def _without_options(tokens: Sequence[Token], words: Sequence[str]) -> Iterator[Token]:
    """The tokens without WITH (…) behind a list, and without [USING INDEX] TABLESPACE name."""
    at = 0
    while at < len(tokens):
        if words[at : at + 2] == ["WITH", "("] and words[at - 1] == ")":
            at = _closing(words, at + 1) + 1
        elif words[at : at + 3] == ["USING", "INDEX", "TABLESPACE"]:
            at += 4
        elif is_word(tokens[at], "TABLESPACE") and words[at - 1] == ")":
            at += 2
        else:
            yield tokens[at]
            at += 1


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
        elif here == ["XML", "("]:
            yield tokens[at]
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
        if statement.source is Source.MYSQL and beginnings(statement.tokens):
            note_of_beginnings(statement.place(statement.start).line, drafts)
        return
    properties = tree.args.get("properties")
    if properties is not None and not nodes_of(properties, exp.TemporaryProperty):
        tree.set("properties", None)
    if isinstance(tree.this, exp.Schema):
        table = statement.table(tree.this.this)
        kept = read_keys(statement, tree.this.expressions, table, drafts)
        if statement.source is Source.SQLSERVER:
            kept = [*_without_computed(statement, kept, table, drafts), *_misplaced(kept)]
        made = [_column(e) if isinstance(e, exp.Identifier) else _constraint(e) for e in kept]
        tree.this.set("expressions", made)


def _without_computed(
    statement: Statement, elements: Sequence[exp.Expr], table: Name, drafts: Drafts
) -> Iterator[exp.Expr]:
    """The elements of a table without computed columns, which have no type and whose values are in
    no file."""
    for each in elements:
        kinds = [constraint.args.get("kind") for constraint in each.args.get("constraints") or ()]
        if any(isinstance(kind, exp.ComputedColumnConstraint) for kind in kinds):
            line = statement.place(statement.offset(each)).line
            drafts.notes.append(f"left out: computed column {each.name.lower()} in line {line}")
            drafts.computed.add((table.text, each.name.lower()))
        else:
            yield each


def _misplaced(elements: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    """The constraints with a list of columns that stand behind a column without a comma."""
    for column in elements:
        for each in list(column.args.get("constraints") or ()):
            if isinstance(each.args.get("kind"), exp.PrimaryKey):
                kind = each.args["kind"].pop()
                each.pop()
                yield exp.Constraint(this=each.this, expressions=[kind]) if each.this else kind


def _column(name: exp.Identifier) -> exp.ColumnDef:
    """A column without a type, which SQLite allows: it holds any text."""
    return exp.ColumnDef(this=name, kind=exp.DataType(this=exp.DType.TEXT))


def _make_alter_readable(statement: Statement, tree: exp.Alter, drafts: Drafts) -> None:
    for action in tree.args["actions"]:
        if not isinstance(action, exp.AddConstraint):
            continue
        kept = read_keys(statement, action.expressions, statement.table(tree.this), drafts)
        action.set("expressions", [_constraint(each) for each in kept])


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
    return [column_of(part) or part for part in parts]


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
    """Leave the name of an index or a primary key to the builder if it is taken: MySQL, SQLite and
    SQL Server have name spaces of their own for them."""
    keyed = (name for name, draft in drafts.relations.items() if draft.primary_keys)
    taken = {*drafts.relations, *(f"{name}_pkey" for name in keyed)}
    for position, index in enumerate(drafts.indexes):
        if index.name is not None and index.name.text in taken:
            drafts.indexes[position] = replace(index, name=None)
        elif index.name is not None:
            taken.add(index.name.text)
    for draft in drafts.relations.values():
        for position, key in enumerate(draft.primary_keys):
            if key.name is not None and key.name.text in taken:
                draft.primary_keys[position] = replace(key, name=None)
            elif key.name is not None:
                taken.add(key.name.text)


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
