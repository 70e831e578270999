"""The SQL parser: SQL text to one checked syntax tree. All SQL enters through this module.

Names are folded to lower case unless quoted. Parameters are numbered or named, so that they do not
depend on their order in generated SQL: `?` number *i* (from 0) becomes DuckDB's `$i+1`, `:name`
becomes `$name`, so that its SQL runs with the caller's own list or mapping. Each
placeholder carries its `Parameter` in `meta["parameter"]`.

Comparisons of rows become comparisons of their values: `(a, b) = (c, d)` is `(a = c AND b = d)`,
and `(a, b) > (c, d)` is `(a >= c AND (a > c OR (a = c AND b > d)))`, so that later stages recognise
the join, the filter or the range. In DuckDB rows with NULLs in the same place are equal; in SQL,
and here, the comparison is unknown.

The parser refuses several statements in one text, statements that are neither queries nor row
changes, and functions that reach outside the database.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.query.dialect import grammar
from hornbeam_server.query.dialect.calls_in_from import (
    call_in_from,
    is_call_in_from,
    with_names_of_records,
)
from hornbeam_server.query.dialect.duckdb_sql import check_cast
from hornbeam_server.query.dialect.fidelity import check as check_faithful
from hornbeam_server.query.dialect.foreign_tokens import check_tokens
from hornbeam_server.query.dialect.functions import function_name, in_duckdb, is_translated
from hornbeam_server.query.dialect.grammar import at, text_at, token_like
from hornbeam_server.query.dialect.interval_fields import with_intervals
from hornbeam_server.query.dialect.jsonb_rows import POPULATING, RECORDS
from hornbeam_server.query.dialect.rows_from import has_several_functions, side_by_side
from hornbeam_server.query.dialect.settings import show_as_query
from hornbeam_server.query.dialect.text_arrays import texts_of
from hornbeam_server.query.parsing.clauses import check_clauses
from hornbeam_server.query.parsing.filtered import guard_divisions
from hornbeam_server.query.parsing.first_words import check_first_word, not_a_statement
from hornbeam_server.query.parsing.frames import read_distances
from hornbeam_server.query.parsing.locking import without_locking
from hornbeam_server.query.parsing.nesting import (
    chain,
    check_nesting,
    list_equalities,
    shallow,
    too_deep,
)
from hornbeam_server.query.parsing.other_forms import refuse_forms, with_known_forms
from hornbeam_server.query.parsing.output_names import name_outputs
from hornbeam_server.query.parsing.patterns import has_several_patterns, spell_patterns
from hornbeam_server.query.parsing.placeholders import Parameter
from hornbeam_server.query.parsing.row_functions import check_row_functions
from hornbeam_server.query.parsing.row_subqueries import write_out_rows
from hornbeam_server.query.parsing.schema_names import join_names
from hornbeam_server.query.parsing.search_and_cycle import (
    keep_clauses,
    without_clauses,
    write_out_clauses,
)
from hornbeam_server.query.parsing.sequence_calls import mark_call, refuse_calls
from hornbeam_server.query.parsing.system_calls import (
    is_answered,
    mentions_catalog,
    without_catalog,
    write_lookups,
)
from hornbeam_server.query.parsing.ties import replace_ties
from hornbeam_server.schema.errors import LimitExceeded, SqlError, Unsupported
from hornbeam_server.schema.sqltext import CODE_POINTS
from hornbeam_server.schema.trees import nodes_of, supersede, unlink, unlink_gone

DIALECT = grammar.NAME
MAX_SQL_CHARACTERS = 1_000_000
MAX_TOKENS = 100_000
"""Maximum number of tokens of a statement; enough for a list of about ten thousand values."""
STATEMENTS = (
    exp.Select,
    exp.SetOperation,
    exp.Subquery,
    exp.Values,
    exp.Insert,
    exp.Update,
    exp.Delete,
    exp.Merge,
    exp.TruncateTable,
)
_OUTSIDE = re.compile(
    r"(read|sniff|write|from_substrait|get_substrait|http|query|pragma|duckdb|copy|load|shell"
    r"|sqlite|postgres|mysql|iceberg|delta|parquet|arrow|json_execute)_.*"
    r"|.*_(scan|attach|metadata)|glob|query|getenv|set_config"
    r"|getvariable|file_.*|checkpoint|force_checkpoint"
)
"""Functions that read files, the network, settings or the process. DuckDB also runs with
external access switched off; this list makes the refusal early and clear."""

OVERRIDING = "overriding"
"""Argument of an INSERT node for OVERRIDING … VALUE: "system" or "user"."""
_OVERRIDING = (["SYSTEM", "VALUE"], ["USER", "VALUE"])
OF_SERVER = re.compile(
    r"pg_(?!typeof$|sleep$|get_serial_sequence$).*|has_.*_privilege|format_type|(col|obj|shobj)_description"
    r"|in_search_path|inet_.*|txid_current"
    r"|current_(query|query_id|connection_id|transaction_id)"
)
"""Functions about the server and its system catalog. DuckDB's stand-ins give made-up answers: every
privilege is granted to everybody, type 16 is TIME."""

_WAITING = frozenset({"pg_sleep", "sleep_ms"})
"""Functions that only block a thread."""

_BEFORE_SLICE_OR_KEY = frozenset(
    {
        TokenType.VAR,
        TokenType.IDENTIFIER,
        TokenType.STRING,
        TokenType.NUMBER,
        TokenType.R_PAREN,
        TokenType.R_BRACKET,
    }
)


def parse(sql: str, *, sequences: bool = False) -> exp.Expr:
    """The tree of the single statement in `sql`; the caller owns it. `sequences`: it may have calls
    of nextval and the like, which the caller takes out. Raises SqlError, Unsupported,
    LimitExceeded, TypeMismatch."""
    sql = show_as_query(sql)
    tokens, tree = read_statement(sql)
    if not isinstance(tree, STATEMENTS):
        raise not_a_statement(type(tree).__name__.upper())
    try:
        nodes = _work_up(tree, tokens, sql)
        if not sequences:
            refuse_calls(nodes)
    except BaseException:
        unlink(tree)
        raise
    return tree


def _work_up(tree: exp.Expr, tokens: Sequence[Token], sql: str) -> list[exp.Expr]:
    """Check a parsed tree and normalise it in place for the later stages. Returns its nodes."""
    nodes = shallow(tree)
    for node in nodes:
        _prepare(node, sql)
    tokens = without_locking(tree, tokens)
    check_faithful(tokens, tree, sql)
    check_clauses(nodes, tokens, sql)
    check_row_functions(nodes, sql)
    join_names(nodes, sql)
    for node in nodes:
        if isinstance(node, exp.Collate):
            _leave_collation_out(node, sql)
    name_outputs(nodes, sql)
    before = nodes
    if mentions_catalog(sql):
        write_lookups(tree)
        nodes = shallow(tree)
    guard_divisions(nodes)
    replace_ties(nodes)
    list_equalities(nodes)
    for cast in nodes:
        if isinstance(cast, exp.Cast):
            check_cast(cast)
    _translate(tree, sql)
    if any(isinstance(node, exp.WindowSpec) for node in nodes):
        read_distances(tree)
    write_out_rows(tree)
    _compare_values(tree)
    if any(has_several_patterns(node) for node in nodes):
        spell_patterns(tree)
    left = shallow(tree)
    unlink_gone([*before, *nodes] if before is not nodes else nodes, left)
    return left


def read_statement(sql: str) -> tuple[Sequence[Token], exp.Expr]:
    """The tokens and the tree of the single statement in `sql`, without any check of the tree. The
    caller owns the tree. Raises SqlError, Unsupported, LimitExceeded."""
    if len(sql) > MAX_SQL_CHARACTERS:
        raise SqlError(
            f"The statement is longer than {MAX_SQL_CHARACTERS} characters.",
            cure="Send less at a time, or values as parameters.",
        )
    try:
        tokens = grammar.with_rows(grammar.with_jsonb_operators(grammar.tokenize(sql)))
        _check_length(tokens)
        check_tokens(tokens)
        tokens = with_names_of_records(with_intervals(without_catalog(tokens)))
        tokens = with_known_forms(_with_insert(tokens))
        tokens, searches = without_clauses(tokens, sql)
        refuse_forms(tokens)
        check_first_word(tokens, sql)
        check_nesting(tokens)
        tokens, overriding = _without_overriding(_without_default_values(list(tokens)))
        numbered = list(_number_parameters(tokens))
        trees = grammar.read(numbered, sql)
    except SqlglotError as error:
        raise SqlError(_readable(error)) from None
    except RecursionError:
        raise too_deep() from None
    statements = [tree for tree in trees if tree is not None]
    if len(statements) > 1:
        raise Unsupported(
            f"The text has {len(statements)} statements.", cure="Send one statement at a time."
        )
    keep_clauses(statements[0], searches)
    if overriding:
        if not isinstance(statements[0], exp.Insert | exp.Merge):
            raise SqlError("OVERRIDING is for INSERT and MERGE only.", cure="Leave it out.")
        statements[0].set(OVERRIDING, overriding)
    return numbered, statements[0]


def _without_overriding(tokens: list[Token]) -> tuple[list[Token], str]:
    """(tokens without OVERRIDING SYSTEM VALUE or OVERRIDING USER VALUE, "system", "user" or ""):
    the library's parser does not know the clause."""
    for i, token in enumerate(tokens):
        if token.token_type is not TokenType.VAR or token.text.upper() != "OVERRIDING":
            continue
        words = [text_at(tokens, i + n).upper() for n in (1, 2)]
        if words in _OVERRIDING:
            return [*tokens[:i], *tokens[i + 3 :]], words[0].lower()
    return tokens, ""


def _without_default_values(tokens: list[Token]) -> list[Token]:
    """The tokens with INSERT for INSERT DEFAULT VALUES of a MERGE, which the library's parser does
    not know."""
    gone = {
        i + n
        for i, token in enumerate(tokens)
        if token.token_type is TokenType.INSERT
        and [text_at(tokens, i + n).upper() for n in (1, 2)] == ["DEFAULT", "VALUES"]
        for n in (1, 2)
    }
    if text_at(tokens, 0).upper() == "MERGE":
        _require_values(tokens)
    return [token for i, token in enumerate(tokens) if i not in gone] if gone else tokens


def _require_values(tokens: Sequence[Token]) -> None:
    """Raise SqlError for an INSERT of a MERGE without a row, which would insert defaults."""
    for i, token in enumerate(tokens):
        if token.token_type is not TokenType.INSERT or text_at(tokens, i - 1).upper() != "THEN":
            continue
        following = i + 1
        if text_at(tokens, following) == "(":
            following = behind_parenthesis(tokens, following)
        if text_at(tokens, following).upper() not in {"VALUES", "DEFAULT", "OVERRIDING"}:
            raise SqlError(
                "An INSERT of a MERGE has no values.",
                cure="Write INSERT (columns) VALUES (…), or INSERT DEFAULT VALUES.",
            )


def behind_parenthesis(tokens: Sequence[Token], start: int) -> int:
    """The place behind the parenthesis that opens at `start`."""
    depth = 0
    for i in range(start, len(tokens)):
        depth += (tokens[i].text == "(") - (tokens[i].text == ")")
        if not depth:
            return i + 1
    return len(tokens)


def _with_insert(tokens: Sequence[Token]) -> Sequence[Token]:
    """The tokens with INSERT OR REPLACE for REPLACE at the beginning of REPLACE INTO."""
    if [text_at(tokens, i).upper() for i in range(2)] != ["REPLACE", "INTO"]:
        return tokens
    first = tokens[0]
    words = [token_like(TokenType.INSERT, "INSERT", first), token_like(TokenType.OR, "OR", first)]
    return [*words, *tokens]


def _readable(error: SqlglotError) -> str:
    details = getattr(error, "errors", None)
    if not details:
        return "The statement cannot be read: " + str(error).splitlines()[0].rstrip(".") + "."
    first = details[0]
    missing = re.search(r"missing for <class '.*\.(\w+)'>", first["description"])
    what = f"{missing[1].upper()} is incomplete" if missing else first["description"].rstrip(".")
    return (
        f"The statement cannot be read: {what}, near "
        f"{first['highlight']!r} (line {first['line']}, column {first['col']})."
    )


def _number_parameters(tokens: Sequence[Token]) -> Iterator[Token]:
    count, named = 0, False
    for i, token in enumerate(tokens):
        if token.token_type in (TokenType.PLACEHOLDER, TokenType.QDCOLON):
            count += 1
            yield token_like(TokenType.PARAMETER, "$", token)
            yield token_like(TokenType.NUMBER, str(count), token)
            if token.token_type is TokenType.QDCOLON:  # ?::TYPE, where ?:: is one token
                yield token_like(TokenType.DCOLON, "::", token)
        elif token.token_type is TokenType.PARAMETER and _begins_path(tokens, i):
            raise Unsupported(
                f"The operator @{text_at(tokens, i + 1)} takes a path of SQL/JSON, which is not"
                " supported.",
                cure=_BY_PATH,
            )
        elif token.token_type is TokenType.PARAMETER and not _is_absolute(tokens, i):
            raise Unsupported(
                f"{token.text}{text_at(tokens, i + 1)} is no parameter here.",
                cure="Write ? or :name.",
            )
        elif _starts_named(tokens, i):
            named = True
            yield token_like(TokenType.PARAMETER, "$", token)
        else:
            yield token
    if count and named:
        raise Unsupported("The statement has both ? and :name.", cure="Use one of the two.")


def _begins_path(tokens: Sequence[Token], i: int) -> bool:
    """Whether the sign `@` at `i` begins the operator `@?` or `@@`."""
    return tokens[i].text == "@" and text_at(tokens, i + 1) in ("?", "@")


def _is_absolute(tokens: Sequence[Token], i: int) -> bool:
    """Whether token `i` is the operator `@`, which no name follows directly."""
    token, following = tokens[i], tokens[i + 1 : i + 2]
    named = bool(following) and following[0].start == token.end + 1
    return token.text == "@" and not (named and following[0].text.isidentifier())


def _starts_named(tokens: Sequence[Token], i: int) -> bool:
    """Whether token `i` is the colon of `:name`, not the colon of a slice, a struct or a cast."""
    token = tokens[i]
    return (
        token.token_type is TokenType.COLON
        and text_at(tokens, i + 1).isidentifier()
        and tokens[i + 1].start == token.end + 1
        and not (i and tokens[i - 1].token_type in _BEFORE_SLICE_OR_KEY)
        and not _starts_slice(tokens[max(i - 2, 0) : i])
    )


def _starts_slice(before: Sequence[Token]) -> bool:
    """Whether the two tokens are a subscripted operand and its bracket. The bracket of a list has
    no operand."""
    kinds = [token.token_type for token in before]
    return kinds[1:] == [TokenType.L_BRACKET] and kinds[0] in _BEFORE_SLICE_OR_KEY


def _check_length(tokens: Sequence[Token]) -> None:
    """Raise LimitExceeded for too many tokens: parsing a token takes about 30 µs, and memory."""
    if len(tokens) > MAX_TOKENS:
        raise LimitExceeded(
            f"The statement has more than {MAX_TOKENS} words, values and signs.",
            cure="Send less at a time, or values as parameters.",
        )


def _prepare(node: exp.Expr, sql: str) -> None:
    if isinstance(node, exp.Identifier):
        if not node.args.get("quoted"):
            node.set("this", node.name.lower())
    elif isinstance(node, exp.Placeholder):
        name = node.name
        node.meta["parameter"] = Parameter(int(name) - 1 if name.isdigit() else name)
    elif isinstance(node, exp.PropertyEQ) and isinstance(node.this, exp.Column):
        node.set("this", node.this.this)  # f(name := value): the name is not a column
    elif isinstance(node, exp.Join) and node.meta.get(grammar.NO_CONDITION):
        raise SqlError(
            f"JOIN has neither ON nor USING{at(node, sql)}.",
            cure="Write ON condition, USING (columns), or CROSS JOIN.",
        )
    elif isinstance(node, exp.Columns):
        raise Unsupported(f"COLUMNS(…) is not supported{at(node, sql)}.", cure="Name the columns.")
    elif isinstance(node, exp.Into):
        raise Unsupported(
            f"INTO is not supported{at(node, sql)}.",
            cure="Write CREATE TABLE name AS SELECT …, or INSERT … SELECT.",
        )
    elif isinstance(node, exp.Func):
        _check_function(node, sql)
        mark_call(node)


def _leave_collation_out(node: exp.Collate, sql: str) -> None:
    """Leave out a collation that orders text by code point. Raises Unsupported for another."""
    name = node.expression.name
    if name not in CODE_POINTS:
        raise Unsupported(
            f"COLLATE {name} is not supported{at(node, sql)}: text is ordered by code point.",
            cure='Compare or order by lower(…), or write COLLATE "C".',
        )
    supersede(node, node.this)


def _translate(tree: exp.Expr, sql: str) -> None:
    """Translate functions that differ in DuckDB (`query/dialect/functions.py`)."""
    write_out_clauses(tree)
    nodes = _with_queries(tree, has_several_functions, side_by_side)
    nodes = _with_queries(tree, is_call_in_from, call_in_from, nodes)
    for node in reversed(list(filter(is_translated, nodes))):
        try:
            found = in_duckdb(node)
            supersede(node, found)
        except Unsupported as error:
            raise Unsupported(
                f"{error.message.rstrip('.')}{at(node, sql)}.", cure=error.cure
            ) from None
        for cast in found.find_all(exp.Cast):
            check_cast(cast)


def _with_queries(
    tree: exp.Expr,
    is_written: Callable[[exp.Expr], bool],
    query: Callable[[exp.Expr], exp.Expr],
    nodes: list[exp.Expr] | None = None,
) -> list[exp.Expr]:
    """The nodes of the tree (`nodes`, if they are known) with a `query` for each item of FROM that
    `is_written` holds for."""
    nodes = list(tree.dfs()) if nodes is None else nodes
    items = [node for node in nodes if is_written(node)]
    for item in reversed(items):  # parts first
        supersede(item, query(item))
    return list(tree.dfs()) if items else nodes


def _compare_values(tree: exp.Expr) -> None:
    """Replace comparisons of rows by comparisons of their values."""
    comparisons: list[exp.Expr] = nodes_of(tree, *_OF_ROWS)
    for node in comparisons:
        if not isinstance(node.parent, exp.Update | exp.OnConflict):  # an assignment
            found = _taken_apart(node)
            if found is not node:
                supersede(node, found if isinstance(found, exp.Paren) else exp.Paren(this=found))


_STRICT: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.LT: exp.LT,
    exp.LTE: exp.LT,
    exp.GT: exp.GT,
    exp.GTE: exp.GT,
}
_OR_EQUAL: dict[type[exp.Binary], type[exp.Binary]] = {exp.LT: exp.LTE, exp.GT: exp.GTE}
_EQUAL = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)
_OF_ROWS = (*_STRICT, *_EQUAL, exp.In, exp.Is)


def _taken_apart(node: exp.Expr) -> exp.Expr:
    """A comparison of rows of equal length as comparisons of their values; any other unchanged."""
    if (items := _array(node)) is not None:
        member = exp.In(this=node.this, expressions=items)
        return member if isinstance(node, exp.EQ) else exp.Not(this=member)
    left = _row(node.this)
    if left is None:
        return node
    if isinstance(node, exp.Is):
        return _all_null(node, left)
    if isinstance(node, exp.In):
        rows = [_row(item) for item in node.expressions]
        if not rows or any(row is None or len(row) != len(left) for row in rows):
            return node
        found = [row for row in rows if row is not None]
        firsts = exp.In(this=left[0].copy(), expressions=[row[0].copy() for row in found])
        either = chain(exp.Or, [_compare_rows(exp.EQ, left, row) for row in found])
        return exp.And(this=_taken_apart(firsts), expression=exp.Paren(this=either))
    right = _row(node.expression)
    if right is None or len(left) != len(right):
        return node
    return _compare_rows(type(node), left, right)


def _all_null(node: exp.Is, row: Row) -> exp.Expr:
    """`(a, b) IS NULL`, which holds if all values are NULL. IS NOT NULL is not its opposite: it
    holds if no value is NULL."""
    if not isinstance(node.expression, exp.Null):
        return node
    none = isinstance(node.parent, exp.Not) and grammar.IS_NOT in node.parent.meta
    return chain(
        exp.Or if none else exp.And,
        [exp.Is(this=cell.copy(), expression=exp.Null()) for cell in row],
    )


def _compare_rows(kind: type[exp.Expr], left: Row, right: Row) -> exp.Expr:
    if kind in _STRICT:
        return _ordered_rows(kind, left, right)
    pairs = zip(left, right, strict=True)
    each = [_compare_cells(kind, a, b) for a, b in pairs]
    joined = exp.And if kind in (exp.EQ, exp.NullSafeEQ) else exp.Or
    return exp.Paren(this=chain(joined, each))


def _ordered_rows(kind: type[exp.Expr], left: Row, right: Row) -> exp.Expr:
    """An ordering comparison of rows: the first values decide unless they are equal. The first
    condition is a range, which an access path can use."""
    first, other = left[0], right[0]
    if len(left) == 1:
        return _compare_cells(kind, first, other)
    strict = _STRICT[kind]
    rest = exp.And(
        this=_compare_cells(exp.EQ, first, other),
        expression=_ordered_rows(kind, left[1:], right[1:]),
    )
    either = exp.Or(this=_compare_cells(strict, first, other), expression=exp.Paren(this=rest))
    return exp.Paren(
        this=exp.And(
            this=_compare_cells(_OR_EQUAL[strict], first, other),
            expression=exp.Paren(this=either),
        )
    )


def _compare_cells(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return _taken_apart(kind(this=left.copy(), expression=right.copy()))


def _array(node: exp.Expr) -> list[exp.Expr] | None:
    """The values of `= ANY (ARRAY[…])` and `<> ALL (ARRAY[…])`, which mean IN and NOT IN; None for
    other nodes."""
    side = node.expression if isinstance(node, exp.EQ | exp.NEQ) else None
    array = None
    if isinstance(node, exp.EQ) and isinstance(side, exp.Any):
        array = side.this
    elif isinstance(node, exp.NEQ) and isinstance(side, exp.Anonymous):
        array = side.expressions[0] if side.name.lower() == "all" else None
    return None if array is None else _elements(array) or None


def _elements(array: exp.Expr) -> list[exp.Expr]:
    """The elements of ARRAY[…], each cast to the type of the elements if the array is cast, as
    pg_dump writes `x IN (…)`; empty for other expressions."""
    array = array.unnest()
    to = array.args.get("to") if isinstance(array, exp.Cast) else None
    if isinstance(to, exp.DataType) and to.this is exp.DType.ARRAY:
        return _elements(array.this) or _spelled(array.this, to.expressions[0])
    return array.expressions if isinstance(array, exp.Array) else []


def _spelled(array: exp.Expr, to: exp.DataType) -> list[exp.Expr]:
    """The elements of '{a,b}' that is cast to an array; empty for other expressions."""
    texts = texts_of(array) or []
    values = (exp.Null() if text is None else exp.Literal.string(text) for text in texts)
    return [exp.Cast(this=value, to=to.copy()) for value in values]


Row = list[exp.Expr]


def _row(node: Any) -> Row | None:
    node = node.unnest() if isinstance(node, exp.Expr) else node
    if not isinstance(node, exp.Tuple):
        return None
    if not node.expressions:
        raise SqlError("A row without values cannot be compared.", cure="Write (value, …).")
    return list(map(_cell, node.expressions))


def _cell(value: exp.Expr) -> exp.Expr:
    """A value of a row, as an operand. The row keeps its own nodes, since it may stay as it is."""
    plain = isinstance(value, exp.Column | exp.Literal | exp.Placeholder | exp.Tuple)
    return value if plain else exp.Paren(this=value.copy())


_BY_PATH = "Take the parts by ->, #> and @>, and by jsonb_array_elements in FROM."
_OF_SETTINGS = "Send SET name = value through the client."
_REFUSED: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(
        (
            *("jsonb_path_exists", "jsonb_path_match", "jsonb_path_query"),
            *("jsonb_path_query_array", "jsonb_path_query_first"),
            *("jsonb_path_exists_tz", "jsonb_path_match_tz", "jsonb_path_query_tz"),
            *("jsonb_path_query_array_tz", "jsonb_path_query_first_tz"),
        ),
        ("takes a path of SQL/JSON, which is not supported", _BY_PATH),
    ),
    "set_config": (
        "stands alone, with literals: SELECT set_config('name', 'value', false)",
        _OF_SETTINGS,
    ),
    **dict.fromkeys(
        (*RECORDS, *POPULATING),
        ("gives rows, and stands in FROM alone", "Write SELECT r.* FROM function(…) AS r."),
    ),
}
"""Functions of PostgreSQL that are refused: why, and what to write instead."""


def _check_function(node: exp.Func, sql: str) -> None:
    name = function_name(node)
    in_from = isinstance(node.parent, exp.Table | exp.Lateral)
    if name in _REFUSED and not (in_from and name in {*RECORDS, *POPULATING}):
        why, cure = _REFUSED[name]
        raise Unsupported(f"Function {name} {why}{at(node, sql)}.", cure=cure)
    if _OUTSIDE.fullmatch(name):
        raise Unsupported(
            f"Function {name} reaches outside the database{at(node, sql)}.",
            cure="Load the data into a relation first.",
        )
    if OF_SERVER.fullmatch(name) and not is_answered(name):
        raise Unsupported(
            f"Function {name} asks for the system catalog of PostgreSQL{at(node, sql)}.",
            cure="Ask information_schema, SHOW, or version() and current_user.",
        )
    if name == "columns":
        raise Unsupported(f"COLUMNS(…) is not supported{at(node, sql)}.", cure="Name the columns.")
    if name in _WAITING:
        raise Unsupported(f"Function {name} only waits{at(node, sql)}.", cure="Wait in the client.")
