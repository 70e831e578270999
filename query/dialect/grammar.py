"""Hornbeam's SQL dialect: DuckDB's grammar, PostgreSQL's types, and function calls as written.

sqlglot knows about a thousand functions of two dozen dialects and translates each to DuckDB as well
as it can, but drops arguments that it cannot translate. In this dialect it knows only the functions
that native execution computes, each with only the supported arguments. Any other call keeps its
name and arguments as written, so that DuckDB evaluates all of it or refuses it by name.

Keyword forms (`EXTRACT(YEAR FROM d)`) are parsed where DuckDB has them. `->`, `->>`, `#>` and `#>>`
keep their right operand as written (`query/dialect/functions.py` translates them).

sqlglot's own dialect gives NUMERIC without precision three places, drops the length of VARCHAR(n),
and reads FLOAT as REAL.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parser import binary_range_parser
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.query.values.interval_fields import FIELDS
from hornbeam_server.schema.escaped_texts import unescaped, unistr
from hornbeam_server.schema.seconds import SECOND_DIGITS
from hornbeam_server.schema.trees import unlink_unfinished

NAME = "hornbeamsql"
"""The name under which the library that writes SQL knows this dialect."""
EXACT = "exact"
"""Key in the meta of a call of date_part that is written EXTRACT, whose value is exact."""
NO_CONDITION = "no_condition"
"""Key in the meta of JOIN: whether it lacks ON and USING, and needs one of them."""
IS_NOT = "is_not"
"""Key in the meta of NOT that is written IS NOT."""
START = "start"
"""Key in the meta of a node: the place in the text where its first word begins."""
NEGATED = "negated"
"""Key in the meta of a NOT that belongs to the operator below it, such as `!~`."""
IS_UNKNOWN = "is_unknown"
"""Key in the meta of IS NULL that is written IS UNKNOWN."""
_DUCKDB: Any = DuckDB.Parser
_GENERATOR: Any = DuckDB.Generator
_Build = Callable[[list[Any]], exp.Expr]


def _call(name: str, type_: type[exp.Func], *arguments: str, needed: int = 1) -> _Build:
    """A builder of `type_` for calls with the supported number of arguments; other calls stay
    anonymous calls of `name`."""

    def build(given: list[Any]) -> exp.Expr:
        if needed <= len(given) <= len(arguments):
            return type_(**dict(zip(arguments, given, strict=False)))
        return exp.Anonymous(this=name, expressions=given)

    return build


def _first_and_rest(name: str, type_: type[exp.Func], **flags: bool) -> _Build:
    def build(given: list[Any]) -> exp.Expr:
        if not given:
            return exp.Anonymous(this=name, expressions=given)
        return type_(this=given[0], expressions=given[1:], **flags)

    return build


def _json(type_: type[exp.Expr]) -> Callable[[Any, Any, Any], exp.Expr]:
    return lambda self, this, key: self.expression(type_(this=this, expression=key))


_NAMED: dict[str, tuple[type[exp.Func], tuple[str, ...], int]] = {
    "ABS": (exp.Abs, ("this",), 1),
    "AVG": (exp.Avg, ("this",), 1),
    "CURRENT_DATE": (exp.CurrentDate, (), 0),
    "CURRENT_LOCALTIMESTAMP": (exp.Localtimestamp, (), 0),
    "CURRENT_TIMESTAMP": (exp.CurrentTimestamp, (), 0),
    "FIRST_VALUE": (exp.FirstValue, ("this",), 1),
    "LAG": (exp.Lag, ("this", "offset", "default"), 1),
    "LAST_VALUE": (exp.LastValue, ("this",), 1),
    "LEAD": (exp.Lead, ("this", "offset", "default"), 1),
    "LENGTH": (exp.Length, ("this",), 1),
    "LOCALTIMESTAMP": (exp.Localtimestamp, (), 0),
    "LOWER": (exp.Lower, ("this",), 1),
    "MAX": (exp.Max, ("this",), 1),
    "MIN": (exp.Min, ("this",), 1),
    "NTH_VALUE": (exp.NthValue, ("this", "offset"), 2),
    "NULLIF": (exp.Nullif, ("this", "expression"), 2),
    "ROUND": (exp.Round, ("this", "decimals"), 1),
    "SUBSTR": (exp.Substring, ("this", "start", "length"), 2),
    "SUM": (exp.Sum, ("this",), 1),
    "TODAY": (exp.CurrentDate, (), 0),
    "UPPER": (exp.Upper, ("this",), 1),
}
"""Functions with their own node class: (class, argument names, minimum number of arguments)."""

_JSON_OPERATORS = {
    TokenType.ARROW: _json(exp.JSONExtract),
    TokenType.DARROW: _json(exp.JSONExtractScalar),
    TokenType.HASH_ARROW: _json(exp.JSONBExtract),
    TokenType.DHASH_ARROW: _json(exp.JSONBExtractScalar),
}
_LITERAL_TYPES = DuckDB.Parser.TYPE_TOKENS
READ_AGAIN, READ_AGAIN_AT_LEAST = 50, 20_000
"""The parser of a statement of n tokens goes back over at most `READ_AGAIN` * n +
`READ_AGAIN_AT_LEAST` tokens."""
_KEYWORD_FORMS = ("CAST", "OVERLAY", "POSITION", "SUBSTRING", "TRY_CAST")


_BEHIND_VALUES = frozenset(
    {
        *(TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT),
        *(TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH),
    }
)


class _Parser(_DUCKDB):  # type: ignore[misc]
    TYPE_CONVERTERS: ClassVar[dict[Any, Any]] = {}
    FUNCTIONS = {  # noqa: RUF012
        **{name: _call(name, type_, *of, needed=n) for name, (type_, of, n) in _NAMED.items()},
        "COALESCE": _first_and_rest("COALESCE", exp.Coalesce),
        "COUNT": _call("COUNT", exp.Count, "this", needed=0),
        "GREATEST": _first_and_rest("GREATEST", exp.Greatest, ignore_nulls=True),
        "LEAST": _first_and_rest("LEAST", exp.Least, ignore_nulls=True),
    }
    FUNCTIONS_WITH_ALIASED_ARGS = frozenset[str]()
    FUNCTION_PARSERS = {  # noqa: RUF012
        **{name: _DUCKDB.FUNCTION_PARSERS[name] for name in _KEYWORD_FORMS},
        "EXTRACT": lambda self: self._parse_part(),
        "SUBSTRING": lambda self: self._parse_similar_part(),
        "TRIM": lambda self: self._parse_trimmed(),
    }
    BITWISE = {**_DUCKDB.BITWISE, TokenType.HASH: exp.BitwiseXor}  # noqa: RUF012
    UNARY_PARSERS = {  # noqa: RUF012
        **_DUCKDB.UNARY_PARSERS,
        TokenType.PARAMETER: lambda self: self._parse_absolute(),
        TokenType.PIPE_SLASH: lambda self: self._parse_root(exp.Sqrt),
        TokenType.DPIPE_SLASH: lambda self: self._parse_root(exp.Cbrt),
    }
    NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
        name: _DUCKDB.NO_PAREN_FUNCTION_PARSERS[name] for name in ("ANY", "CASE", "MAP")
    }
    LAMBDAS = {  # noqa: RUF012
        kind: read for kind, read in _DUCKDB.LAMBDAS.items() if kind is not TokenType.ARROW
    }
    PLACEHOLDER_PARSERS = {  # noqa: RUF012  # a[:n] is a slice; :name is a token of its own
        kind: read
        for kind, read in _DUCKDB.PLACEHOLDER_PARSERS.items()
        if kind is not TokenType.COLON
    }
    JSON_OPERATORS = _JSON_OPERATORS
    RANGE_PARSERS = {  # noqa: RUF012
        **_DUCKDB.RANGE_PARSERS,
        TokenType.AT_QMARK: binary_range_parser(exp.JSONBContains),
    }
    COLUMN_OPERATORS = {  # noqa: RUF012
        kind: read
        for kind, read in _DUCKDB.COLUMN_OPERATORS.items()
        if kind not in _JSON_OPERATORS and kind is not TokenType.PLACEHOLDER
    }

    def reset(self) -> None:
        super().reset()
        self._again = 0

    def _retreat(self, index: int) -> None:
        """Go back to a token. The library tries one form after the other, which doubles the work at
        each level of some nests: such a statement is refused like one that is nested too deeply."""
        self._again += max(self._index - index, 0)
        if self._again > READ_AGAIN * len(self._tokens) + READ_AGAIN_AT_LEAST:
            raise RecursionError
        super()._retreat(index)

    def _parse_types(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """Parse a type. `ARRAY[` begins a value, which the library would read as a type first."""
        curr, following = self._curr, self._next
        kinds = (curr and curr.token_type, following and following.token_type)
        if kinds == (TokenType.ARRAY, TokenType.L_BRACKET):
            return None
        found: exp.Expr | None = super()._parse_types(*args, **kwargs)
        return found

    def _parse_user_defined_type(self, identifier: exp.Identifier) -> exp.Expr | None:
        """Parse the name of a type. The library forgets which of its parts are quoted."""
        parts: list[exp.Expr] = [identifier]
        while self._match(TokenType.DOT):
            part: exp.Expr | None = self._parse_id_var(any_token=True)
            parts += [part] if part is not None else []
        named = ".".join(part.name for part in parts)
        found = exp.DataType.from_str(named, dialect=self.dialect, udt=True)
        if found.this is exp.DType.USERDEFINED:
            found.set("kind", exp.Dot.build(parts) if len(parts) > 1 else identifier)
        return found

    def _parse_type(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        return self._parse_typed_literal() or super()._parse_type(*args, **kwargs)

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """Parse an item of FROM. The library reads no joins behind VALUES and subqueries in UPDATE
        … FROM and DELETE … USING."""
        table: exp.Expr | None = super()._parse_table(*args, **kwargs)
        derived = isinstance(table, exp.Values | exp.Subquery) and not table.args.get("joins")
        if table is not None and derived and kwargs.get("joins"):
            joins = list(self._parse_joins())
            table.set("joins", joins or None)
        return table

    def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
        """Parse a join. The library takes one without a condition for CROSS JOIN."""
        comma = self._curr is not None and self._curr.token_type is TokenType.COMMA
        join: exp.Join | None = super()._parse_join(*args, **kwargs)
        if join is not None and not comma:
            parts = ("on", "using", "method", "nearest")
            known = join.kind == "CROSS" or any(join.args.get(part) for part in parts)
            join.meta[NO_CONDITION] = not known
        return join

    def _parse_cte(self) -> exp.Expr | None:
        """Parse a part of WITH, and note where it begins."""
        start = self._curr and self._curr.start
        cte: exp.Expr | None = super()._parse_cte()
        if cte is not None:
            cte.meta[START] = start
        return cte

    def _parse_typed_literal(self) -> exp.Expr | None:
        """Parse a text behind the name of a type (DATE '2024-02-29'). Operators behind it, such as
        `::`, apply to the value, not to the text. None without such a literal."""
        index = self._index
        if not self._curr or self._curr.token_type not in _LITERAL_TYPES or self._has_unit():
            return None
        type_ = self._parse_types(check_func=True, allow_identifiers=False)
        string = bool(self._curr) and self._curr.token_type is TokenType.STRING
        if isinstance(type_, exp.DataType) and string:
            text = self._parse_primary()
            if isinstance(text, exp.Literal):
                value = self.expression(exp.Cast(this=text, to=type_))
                found: exp.Expr | None = self._parse_column_ops(value)
                return found
        self._retreat(index)
        return None

    def _has_unit(self) -> bool:
        """Do the next tokens begin an interval whose unit is behind the text (INTERVAL '1' DAY)?"""
        if self._curr.token_type is not TokenType.INTERVAL:
            return False
        second, third = (*self._tokens[self._index + 1 : self._index + 3], None, None)[:2]
        if second is None or second.token_type is not TokenType.STRING:
            return True
        return third is not None and third.text.upper() in DuckDB.VALID_INTERVAL_UNITS

    def _negate_range(self, this: exp.Expr | None = None) -> exp.Expr | None:
        found: exp.Expr | None = super()._negate_range(this)
        if isinstance(found, exp.Not):
            found.meta[NEGATED] = True
        return found

    def _parse_is(self, this: exp.Expr | None) -> exp.Expr | None:
        found: exp.Expr | None = super()._parse_is(this)
        if isinstance(found, exp.Not):
            found.meta[IS_NOT] = True
        test = found.this if isinstance(found, exp.Not) else found
        if isinstance(test, exp.Is) and self._prev.token_type is TokenType.UNKNOWN:
            test.meta[IS_UNKNOWN] = True
        return found

    def _parse_derived_table_values(self, allow_value_synonym: bool = False) -> exp.Values | None:
        """Parse VALUES with its alias. Behind `(VALUES …` in FROM may also stand a clause, such as
        UNION: then it is a subquery."""
        index = self._index
        if self._match_pair(TokenType.L_PAREN, TokenType.VALUES):
            rows = self._parse_csv(self._parse_value)
            ends = not self._curr or self._curr.token_type not in _BEHIND_VALUES
            if ends and self._match(TokenType.R_PAREN):
                alias = self._parse_table_alias()
                derived: exp.Values = self.expression(exp.Values(expressions=rows, alias=alias))
                return derived
            self._retreat(index)
            if not ends:
                return None
        found: exp.Values | None = super()._parse_derived_table_values(allow_value_synonym)
        return found

    def _parse_escape(self, this: exp.Expr | None) -> exp.Expr | None:
        """Parse ESCAPE, behind which any expression may stand."""
        if not self._match(TokenType.ESCAPE):
            return this
        found: exp.Expr = self.expression(exp.Escape(this=this, expression=self._parse_bitwise()))
        return found

    def _parse_similar_part(self) -> exp.Expr:
        """Parse SUBSTRING(text SIMILAR pattern ESCAPE sign) as SUBSTRING(text FROM pattern FOR
        sign), which has the same meaning; and SUBSTRING in its other forms."""
        parts = [self._parse_bitwise()]
        if parts[0] is not None and self._match_text_seq("SIMILAR"):
            parts.append(self._parse_bitwise())
            if not self._match(TokenType.ESCAPE):
                self.raise_error("Expecting ESCAPE")
            parts.append(self._parse_bitwise())
        while self._match(TokenType.COMMA):
            parts.append(self._parse_bitwise())
        start = self._parse_bitwise() if self._match(TokenType.FROM) else None
        length = self._parse_bitwise() if self._match(TokenType.FOR) else None
        if self._match(TokenType.FROM):  # behind FOR
            start = self._parse_bitwise()
        if length is not None and start is None:
            start = exp.Literal.number(1)
        given = [*parts, *(part for part in (start, length) if part is not None)]
        found: exp.Expr = self.validate_expression(exp.Substring.from_arg_list(given), given)
        return found

    def _parse_part(self) -> exp.Expr:
        """Parse EXTRACT(part FROM value) as date_part('part', value)."""
        read = _DUCKDB.FUNCTION_PARSERS["EXTRACT"](self)
        part = exp.Literal.string(read.name.lower())
        call = exp.Anonymous(this="date_part", expressions=[part, read.expression])
        call.meta[EXACT] = True
        return call

    def _parse_root(self, root: type[exp.Func]) -> exp.Expr:
        """Parse what is behind `|/` and `||/`, which bind less than arithmetic."""
        found: exp.Expr = self.expression(root(this=self._parse_term()))
        return found

    def _parse_absolute(self) -> exp.Expr | None:
        """Parse what is behind `@`. Behind `$`, which has the same kind, is a parameter's number or
        name."""
        if self._prev.text == "@":
            return self._parse_root(exp.Abs)
        self._retreat(self._index - 1)
        found: exp.Expr | None = self._parse_type()
        return found

    def _parse_trimmed(self) -> exp.Expr:
        """Parse TRIM, whose characters may stand last: TRIM(BOTH FROM text, characters)."""
        start = self._index
        position = self._match_texts(self.TRIM_TYPES) and self._prev.text.upper()
        if not self._match(TokenType.FROM):
            self._retreat(start)
            trim: exp.Expr = _DUCKDB.FUNCTION_PARSERS["TRIM"](self)
            return trim
        text = self._parse_bitwise()
        characters = self._parse_bitwise() if self._match(TokenType.COMMA) else None
        found: exp.Expr = self.expression(
            exp.Trim(this=text, position=position or None, expression=characters)
        )
        return found

    def _parse_function_args(self, alias: bool = False) -> list[exp.Expr]:
        """Parse arguments. DISTINCT applies to the whole call but is stored at the first argument
        only."""
        arguments: list[exp.Expr] = super()._parse_function_args(alias)
        first = arguments[0] if arguments else None
        distinct = first.this if isinstance(first, exp.Order) else first
        if first is None or not isinstance(distinct, exp.Distinct):
            return arguments
        if not distinct.expressions:
            self.raise_error("DISTINCT stands before an argument")
        value, *others = distinct.expressions
        distinct.set("expressions", [value])
        if others and first is not distinct:  # DISTINCT x, y ORDER BY z
            first.replace(distinct)
            first.set("this", others.pop())
            others.append(first)
        return [distinct if others else first, *others, *arguments[1:]]


def fields_word(first: str, last: str, digits: int) -> str:
    """The word behind INTERVAL that stands for the fields of a cast
    (`query/dialect/interval_fields.py`): the parser reads one word."""
    return f"FIELDS_{first}_{last}_{digits}"


class HornbeamSQL(DuckDB):
    NULL_ORDERING = "nulls_are_large"
    VALID_INTERVAL_UNITS = {  # noqa: RUF012  (the library's own declaration)
        fields_word(*fields)
        for fields in product(("", *FIELDS), ("", *FIELDS), range(SECOND_DIGITS + 1))
    }

    class Tokenizer(DuckDB.Tokenizer):
        UNICODE_STRINGS: ClassVar[list[Any]] = [("U&'", "'"), ("u&'", "'")]
        KEYWORDS = {k: v for k, v in DuckDB.Tokenizer.KEYWORDS.items() if k != "DIV"} | {
            "FLOAT": TokenType.DOUBLE,
            "CHAR": TokenType.CHAR,
            "BPCHAR": TokenType.BPCHAR,
            "VARCHAR": TokenType.VARCHAR,
            "|/": TokenType.PIPE_SLASH,
            "||/": TokenType.DPIPE_SLASH,
        }

    class Generator(_GENERATOR):  # type: ignore[misc]
        SUPPORTS_LIKE_QUANTIFIERS = True
        TRANSFORMS: ClassVar[dict[Any, Any]] = {
            **_GENERATOR.TRANSFORMS,
            # DuckDB takes the words for output columns of these names.
            exp.CurrentDate: lambda self, node: "current_date()",
            exp.CurrentTimestamp: lambda self, node: "get_current_timestamp()",
            exp.Localtimestamp: lambda self, node: "current_localtimestamp()",
            exp.StrPosition: lambda self, node: self.func("strpos", node.this, node.args["substr"]),
            exp.JSONBContains: lambda self, node: self.binary(node, "?"),
            exp.Between: lambda self, node: self._between(node),
            # With blanks, since $1:$ would begin a text in dollar signs.
            exp.Slice: lambda self, node: (
                f"{self.sql(node, 'this')} : {self.sql(node, 'expression')}"
            ),
        }

        def _between(self, node: exp.Between) -> str:
            """BETWEEN as it was written; the library writes SYMMETRIC as two conditions, which
            double in a nest."""
            words = "BETWEEN SYMMETRIC" if node.args.get("symmetric") else "BETWEEN"
            subject, low, high = (self.sql(node, name) for name in ("this", "low", "high"))
            return f"{subject} {words} {low} AND {high}"

    Parser = _Parser


_DIALECT = HornbeamSQL()


def tokenize(sql: str) -> Sequence[Token]:
    """The tokens of `sql`. Raises SqlglotError."""
    tokens = _DIALECT.tokenize(sql)
    if "@" in sql:
        tokens = list(_with_decimals(tokens, sql))
    return [_read_as(_KINDS.get(token.token_type), token, sql) for token in tokens]


def _with_decimals(tokens: Sequence[Token], sql: str) -> Iterator[Token]:
    """Yield the tokens. The library reads the number behind `@` in parts: 3, a dot and 7."""
    i = 0
    while i < len(tokens):
        kinds = [token.token_type for token in tokens[i : i + 3]]
        first, last = tokens[i], tokens[min(i + 2, len(tokens) - 1)]
        if kinds == _PARTS_OF_NUMBER and tokens[i - 1].text == "@" and _adjoin(first, last):
            text = sql[first.start : last.end + 1]
            yield Token(
                TokenType.NUMBER, text, first.line, first.col, first.start, last.end, first.comments
            )
            i += 3
        else:
            yield first
            i += 1


_PARTS_OF_NUMBER = [TokenType.NUMBER, TokenType.DOT, TokenType.NUMBER]


def _adjoin(first: Token, last: Token) -> bool:
    """Do the parts of a number, with a dot between them, follow each other without blanks?"""
    return last.start - first.end == 2


def text_at(tokens: Sequence[Token], i: int) -> str:
    """The text of token `i`; "" behind the last one."""
    return tokens[i].text if i < len(tokens) else ""


def token_like(kind: TokenType, text: str, like: Token) -> Token:
    """A token that stands where the token `like` stands."""
    return Token(kind, text, like.line, like.col, like.start, like.end, [])


_KINDS = {
    TokenType.UNICODE_STRING: TokenType.UNICODE_STRING,
    TokenType.BYTE_STRING: TokenType.BYTE_STRING,
    TokenType.HEREDOC_STRING: TokenType.STRING,
    TokenType.SOME: TokenType.ANY,
}
"""The kinds of tokens that are read as another one, or whose text is."""


def _read_as(kind: TokenType | None, token: Token, sql: str) -> Token:
    """The token with its text decoded (E'…', U&'…'), `$$…$$` as a text, and SOME as ANY."""
    if kind is None:
        return token
    if kind is TokenType.BYTE_STRING:
        return _decoded(token, sql)
    text = "ANY" if kind is TokenType.ANY else token.text
    if kind is TokenType.UNICODE_STRING:
        kind, text = TokenType.STRING, unistr(token.text)
    return Token(kind, text, token.line, token.col, token.start, token.end, token.comments)


_BEFORE_OPERATOR = {
    TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.R_PAREN, TokenType.R_BRACKET,
    TokenType.PLACEHOLDER,
}  # fmt: skip
_BEHIND_OPERATOR = {
    TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.L_PAREN, TokenType.COLON,
    TokenType.PLACEHOLDER, TokenType.ARRAY, TokenType.NULL,
}  # fmt: skip
_OF_TWO_SIGNS = {
    (TokenType.PLACEHOLDER, TokenType.PIPE): TokenType.QMARK_PIPE,
    (TokenType.PLACEHOLDER, TokenType.AMP): TokenType.QMARK_AMP,
    (TokenType.HASH, TokenType.DASH): TokenType.HASH_DASH,
}


def with_jsonb_operators(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with `?`, `?|`, `?&` and `#-` as one token each where they are operators. A `?`
    between two operands is one; any other is a parameter."""
    found: list[Token] = []
    for i, token in enumerate(tokens):
        second = tokens[i + 1] if i + 1 < len(tokens) else None
        if found and found[-1].end >= token.start:
            continue  # the second sign of an operator
        if second is None or token.token_type not in (TokenType.PLACEHOLDER, TokenType.HASH):
            found.append(token)
            continue
        kind = _OF_TWO_SIGNS.get((token.token_type, second.token_type))
        if kind is not None and second.start == token.end + 1:
            found.append(_joined(kind, token, second))
        elif _is_operator(found, token, second):
            found.append(_joined(TokenType.AT_QMARK, token, token))
        else:
            found.append(token)
    return found


_BEFORE_TYPE = {TokenType.ALIAS, TokenType.DCOLON}


def with_rows(tokens: Sequence[Token]) -> Sequence[Token]:
    """The tokens with `(a, b)` for `ROW(a, b)`: the library takes ROW for the name of a type, and
    DuckDB compares such rows by another rule for NULL."""
    gone = {
        i
        for i, token in enumerate(tokens)
        if token.text.upper() == "ROW"
        and not (i and tokens[i - 1].token_type in _BEFORE_TYPE)
        and _has_several(tokens, i + 1)
    }
    return [token for i, token in enumerate(tokens) if i not in gone] if gone else tokens


def _has_several(tokens: Sequence[Token], start: int) -> bool:
    """Do parentheses open at `start`, with a comma of their own?"""
    depth = 0
    for token in tokens[start:]:
        if token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET):
            depth += 1
        elif token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET):
            depth -= 1
        if depth == 0 or (depth == 1 and token.token_type is TokenType.COMMA):
            return depth == 1
    return False


def _is_operator(before: Sequence[Token], token: Token, behind: Token) -> bool:
    if token.token_type is not TokenType.PLACEHOLDER or not before:
        return False
    last = before[-1]
    cast = len(before) > 1 and before[-2].token_type is TokenType.DCOLON
    operand = cast or (last.token_type in _BEFORE_OPERATOR and last.text.lower() != "zone")
    return operand and behind.token_type in _BEHIND_OPERATOR


def _joined(kind: TokenType, first: Token, last: Token) -> Token:
    text = first.text if first is last else first.text + last.text
    return Token(kind, text, first.line, first.col, first.start, last.end, first.comments)


def _decoded(token: Token, sql: str) -> Token:
    r"""The token of E'…' with its escapes decoded: `\u00e4` and `\U0001f600`, which the library
    drops, and `\xc3\xa4`, whose bytes are UTF-8. Raises ParseError."""
    text = sql[token.start : token.end + 1].partition("'")[2].removesuffix("'")
    if not re.search(r"\\[uUx0-7]", text):
        return token
    try:
        decoded = unescaped(text)
    except UnicodeError:
        raise ParseError(f"E'{text}' is no valid text in Unicode") from None
    return Token(
        token.token_type, decoded, token.line, token.col, token.start, token.end, token.comments
    )


def read(tokens: Sequence[Token], sql: str) -> list[exp.Expr | None]:
    """The trees of the statements in `sql`. Raises SqlglotError, RecursionError."""
    try:
        trees: list[exp.Expr | None] = _Parser(dialect=_DIALECT).parse(list(tokens), sql)
    except (SqlglotError, RecursionError) as error:
        unlink_unfinished(error)
        raise
    return trees


def read_expression(sql: str) -> exp.Expr:
    """The tree of one expression. Raises SqlglotError, RecursionError."""
    (select,) = read(tokenize(f"SELECT ({sql})"), sql)
    assert isinstance(select, exp.Select)
    found: exp.Expr = select.expressions[0].this
    found.pop()
    return found


@functools.cache
def expression(sql: str) -> exp.Expr:
    """The cached tree of an internal expression."""
    return read_expression(sql)


_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


def identifier(name: str) -> exp.Identifier:
    """A name, in quotes if it needs them."""
    plain = _PLAIN.fullmatch(name) and name.upper() not in DuckDB.Tokenizer.KEYWORDS
    return exp.Identifier(this=name, quoted=not plain)


def place(offset: int, sql: str) -> str:
    """The position of the character at `offset`, as "line L, column C" counted from 1."""
    before = sql[:offset]
    return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"


def at(node: exp.Expr, sql: str) -> str:
    """The `place` of a node's first part as a suffix for a message; "" if it is not known."""
    starts = [found.meta["start"] for found in node.walk() if "start" in found.meta]
    return f" ({place(min(starts), sql)})" if starts else ""
