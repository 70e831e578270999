"""Check that the SQL generated for DuckDB says the same as the SQL that was parsed.

The library that parses and generates SQL knows many dialects. It silently drops or rephrases a
clause that DuckDB's dialect does not have. The check therefore compares the words of the text with
the words of the generated SQL and refuses a statement that would lose or gain a word. Punctuation,
optional words, and types, which have several names, are not compared.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ErrorLevel
from sqlglot.tokenizer_core import Token, TokenType

from hornbeam_server.query.dialect.grammar import NAME, place, tokenize
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.trees import nodes_of, written

_TYPES = DuckDB.Parser.TYPE_TOKENS - {
    TokenType.INTERVAL, TokenType.NULL, TokenType.RANGE, TokenType.UNION, TokenType.MAP,
}  # fmt: skip
_UNCOUNTED = _TYPES | {
    TokenType.L_PAREN, TokenType.R_PAREN, TokenType.L_BRACKET, TokenType.R_BRACKET,
    TokenType.COMMA, TokenType.SEMICOLON, TokenType.DOT, TokenType.PARAMETER, TokenType.DCOLON,
    TokenType.ALIAS, TokenType.INNER, TokenType.OUTER, TokenType.ASC, TokenType.ALL, TokenType.ROW,
    TokenType.PLUS, TokenType.DASH,
}  # fmt: skip
"""Tokens that may be left out or replaced. The parser drops the sign of +1, and `a - b + c` becomes
`a - (b - c)` in long chains (`query/parsing/nesting.py`)."""
_UNCOUNTED_WORDS = frozenset(
    {"cast", "nulls", "last", "array", "as", "only", "rows", "recursive", "table", "asymmetric"}
)
_LITERALS = {TokenType.STRING, TokenType.BYTE_STRING}
_NAMES_AND_VALUES = {
    TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.EQ, TokenType.NULL, *_LITERALS,
}  # fmt: skip
_ZERO = re.compile(r"0\.")
_SPELLINGS: dict[str, tuple[str, ...]] = {
    "!": ("not",),
    "!=": ("<>",),
    "==": ("=",),
    "~~": ("like",),
    "~~*": ("ilike",),
    "isnull": ("is", "null"),
    "notnull": ("not", "is", "null"),
    "regexp_matches": ("~",),
    "~*": ("~", "i"),
    "unknown": ("null",),
    "extract": ("date_part",),
    "fetch": ("limit",),
    "**": ("power",),
    "^": ("power",),
    "^@": ("starts_with",),
    "@": ("abs",),
    "ltrim": ("trim", "leading"),
    "rtrim": ("trim", "trailing"),
    "position": ("strpos",),
    "substr": ("substring",),
    "today": ("current_date",),
    "current_timestamp": ("get_current_timestamp",),
    "localtimestamp": ("current_localtimestamp",),
    "?|": ("?", "|"),
    "?&": ("?", "&"),
    "#-": ("#",),
    "xor": ("#",),
    "sqrt": ("|/",),
    "cbrt": ("||/",),
    "jsonb_extract": ("#>",),
    "jsonb_extract_scalar": ("#>>",),
}
"""Words that are replaced by equivalent words before the comparison."""
_FORMS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.Fetch: ("first", "next", "row", "1", "with", "ties"),
    exp.Ordered: ("first",),  # of NULLS FIRST, which DESC implies
    exp.Overlay: ("placing", "from", "for"),
    exp.StrPosition: ("in",),
    exp.Substring: ("from", "for", "1", "similar", "escape"),
    exp.TableSample: ("%", "percent", "sample", "using", "tablesample", "reservoir", "system"),
    exp.Trim: ("both", "from"),
    exp.WindowSpec: ("between", "and", "current"),
    exp.WithinGroup: ("within", "group"),
}
"""Words that a construct may gain or lose when it is generated."""
_ADDED = frozenset({"join", "on", "true", "select", "*", "from", "concat", "_values"})
"""Words that generation may add: for a bare FROM, TABLE or VALUES, a join with UNNEST, or adjacent
strings on two lines."""


def check(tokens: Sequence[Token], tree: exp.Expr, sql: str) -> None:
    """Raise Unsupported, with the word, if the SQL generated from `tree` loses or gains a word."""
    # The library does not read `$1 … <> ''` unless something follows.
    read, written = Counter(_words(tokens)), Counter(_words(tokenize(_written(tree) + " ")))
    lost, added = read - written, written - read
    if not lost and not added:
        return
    for type_, words in _FORMS.items():
        number = len(nodes_of(tree, type_))
        lost.subtract(dict.fromkeys(words, number))
        added.subtract(dict.fromkeys(words, number))
    missing = {word for word, count in lost.items() if count > 0}
    more = [word for word, count in added.items() if count > 0 and word not in _ADDED]
    if not missing and not more:
        return
    word, where = _strange(tokens, missing, sql) if missing else (more[0], "it would be added")
    raise Unsupported(
        f"{word.upper()} is not supported here ({where}).",
        cure="Leave it out, or say it in other words.",
    )


def _strange(tokens: Sequence[Token], missing: set[str], sql: str) -> tuple[str, str]:
    """One of the missing words, and its place. A keyword says more than the names and values behind
    it, and of a clause that is written twice the second is the strange one."""
    found = [token for token in tokens if token.text.lower() in missing]
    keywords = [token for token in found if token.token_type not in _NAMES_AND_VALUES]
    if not found:
        return min(missing), "by another name"
    token = (keywords or found)[-1]
    return token.text, place(token.start, sql)


def _written(tree: exp.Expr) -> str:
    return written(tree, NAME, comments=False, unsupported_level=ErrorLevel.IGNORE)


def _words(tokens: Sequence[Token]) -> Iterator[str]:
    zone, sizes, extract = 0, False, False
    before: TokenType | None = None
    for i, token in enumerate(tokens):
        kind, word = token.token_type, token.text.lower()
        sizes = (sizes and kind is not TokenType.R_PAREN) or (
            before in _TYPES and kind is TokenType.L_PAREN
        )  # inside a type's parentheses: DECIMAL(10, 2)
        if zone:  # the rest of WITH TIME ZONE
            zone -= 1
        elif word in ("with", "without") and _is_zone(tokens[i + 1 : i + 3]):
            zone = 2
        elif kind is TokenType.NUMBER:
            if not sizes:
                yield _ZERO.sub("", word)
        elif kind in _LITERALS:
            yield from word.split() or (word,)
        elif extract and kind is TokenType.FROM:  # EXTRACT(part FROM value)
            extract = False
        elif word in _SPELLINGS:
            extract = extract or word == "extract"
            yield from _SPELLINGS[word]
        elif kind not in _UNCOUNTED and word not in _UNCOUNTED_WORDS:
            yield word
        before = kind


def _is_zone(tokens: Sequence[Token]) -> bool:
    return [token.text.lower() for token in tokens] == ["time", "zone"]
