"""Classification of SQL, as far as a client needs it: reads, writes, and schema changes.

This is a scanner, not a parser: it skips comments, strings and quoted names, tracks the depth of
parentheses, and examines a few keywords. The server parses.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, wraps
from itertools import islice, pairwise
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Kind(enum.Enum):
    """The kind of a statement, which decides how it is sent."""

    READ = "read"
    WRITE = "write"
    DDL = "ddl"
    EXPLAIN = "explain"
    SET = "set"
    """SET, RESET, and set_config, which stands alone."""
    CONTROL = "control"
    """BEGIN, COMMIT, SET TRANSACTION and the like (`isolation.control_of`)."""
    PREPARE = "prepare"
    EXECUTE = "execute"
    DEALLOCATE = "deallocate"
    DISCARD = "discard"
    UPKEEP = "upkeep"
    """VACUUM, ANALYZE, CHECKPOINT and REINDEX, and COMMENT ON of what there is not (`upkeep`)."""
    COPY = "copy"
    CURSOR = "cursor"
    """DECLARE, FETCH, MOVE and CLOSE. As COPY, they need PostgreSQL's protocol."""


class Token(NamedTuple):
    """A word, quoted name, string or single character, outside comments. `depth` is the number of
    open parentheses before the token. A closing parenthesis has the depth of its opening one."""

    text: str
    start: int
    depth: int


_CACHED_LENGTH = 10_000
_CACHED_STATEMENTS = 512
_WRITES = {"insert", "update", "delete", "replace", "truncate", "merge"}
_DDL = {"create", "drop", "alter", "rename", "refresh"}
_CONTROL = {"begin", "start", "commit", "rollback", "end", "abort", "savepoint", "release"}
_CURSOR = {"declare", "fetch", "move", "close"}
_UPKEEP = {"vacuum", "analyze", "analyse", "checkpoint", "reindex", "comment"}
_COMMENTED = {
    *("table", "view", "materialized", "column", "index", "sequence", "type", "domain", "schema"),
    *("database", "constraint"),
}
"""The words behind COMMENT ON for the kinds of objects that have comments."""
_TOKEN = re.compile(
    r"""(?P<skip>\s+|--[^\n]*|/\*)"""
    r"""|(?P<token>'(?:[^']|'')*(?:'|\Z)|"(?:[^"]|"")*(?:"|\Z)|(?P<tag>\$(?:[A-Za-z_]\w*)?\$)|\w+|.)""",
    re.S,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


def cached_for_statements(find: Callable[[str], T]) -> Callable[[str], T]:
    """`find` with a cache, which leaves out long statements, so that they do not fill memory."""
    cached = lru_cache(_CACHED_STATEMENTS)(find)

    @wraps(find)
    def found(sql: str) -> T:
        return (cached if len(sql) <= _CACHED_LENGTH else find)(sql)

    return found


def tokens(sql: str) -> Iterator[Token]:
    """The tokens of `sql`. An unterminated string or comment ends with the text."""
    position = depth = 0
    while match := _TOKEN.match(sql, position):
        position = match.end()
        if match["skip"] == "/*":
            position = _comment_end(sql, position)
        if match["skip"]:
            continue
        if tag := match["tag"]:
            end = sql.find(tag, position)
            position = len(sql) if end < 0 else end + len(tag)
        text = sql[match.start() : position]
        depth -= text == ")"
        yield Token(text, match.start(), depth)
        depth += text == "("


def _comment_end(sql: str, position: int) -> int:
    """The position after the comment that is open at `position`. Comments nest."""
    level = 1
    while level and (edge := _COMMENT_EDGE.search(sql, position)):
        level += 1 if edge[0] == "/*" else -1
        position = edge.end()
    return len(sql) if level else position


def separated(found: Sequence[Token], depth: int) -> list[list[Token]]:
    """The tokens, split at the commas inside `depth` parentheses and outside of brackets."""
    parts: list[list[Token]] = [[]]
    brackets = 0
    for token in found:
        brackets += (token.text == "[") - (token.text == "]")
        if token.text == "," and token.depth == depth and not brackets:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def text_of(found: Sequence[Token], sql: str) -> str:
    """The text of `sql` from the first to the last of these tokens; "" without one."""
    return sql[found[0].start : found[-1].start + len(found[-1].text)] if found else ""


@cached_for_statements
def kind(sql: str) -> Kind:
    """The kind of the statement. An unknown statement counts as a read, which changes nothing."""
    words = (token for token in tokens(sql) if token.text != "(")
    word = next(words, Token("", 0, 0)).text.lower()
    if word == "with":
        word = _word_after_with(sql) if not _writes_in_with(sql) else "insert"
    if word == "select" and (is_setval(sql) or table_of_select(sql)):
        return Kind.DDL
    if word == "comment" and sets_comment(sql):
        return Kind.DDL
    if word == "select" and _is_set_config(sql):
        return Kind.SET
    if word == "set" and _sets_transactions([token.text.lower() for token in islice(words, 2)]):
        return Kind.CONTROL
    for words_, meaning in (
        (_WRITES, Kind.WRITE),
        (_DDL, Kind.DDL),
        ({"explain"}, Kind.EXPLAIN),
        ({"set", "reset"}, Kind.SET),
        (_CONTROL, Kind.CONTROL),
        ({"prepare"}, Kind.PREPARE),
        ({"execute"}, Kind.EXECUTE),
        ({"deallocate"}, Kind.DEALLOCATE),
        ({"discard"}, Kind.DISCARD),
        (_UPKEEP, Kind.UPKEEP),
        ({"copy"}, Kind.COPY),
        (_CURSOR, Kind.CURSOR),
    ):
        if word in words_:
            return meaning
    return Kind.READ


def may_show(sql: str) -> bool:
    """Whether the statement begins as SHOW does."""
    return sql.lstrip()[:4].lower() == "show"


def _sets_transactions(words: Sequence[str]) -> bool:
    """Whether the words behind SET begin SET TRANSACTION or SET SESSION CHARACTERISTICS …"""
    return words[:1] == ["transaction"] or words == ["session", "characteristics"]


def setting_of(sql: str) -> tuple[str, str, bool]:
    """The name and the value of SET [SESSION | LOCAL] name { = | TO } value, or RESET name; and
    whether it is LOCAL."""
    first, *words = (token.text for token in tokens(sql) if token.text != ";")
    if first.lower() == "reset":
        return "".join(words) if "." in words else " ".join(words), "default", False
    local = [word.lower() for word in words[:1]] == ["local"]
    if words[:1] and words[0].lower() in {"session", "local"}:
        words = words[1:]
    if [word.lower() for word in words[:2]] == ["time", "zone"]:
        words = ["timezone", "=", *words[2:]]
    elif words[:1] and words[0].lower() == "names":
        words = ["client_encoding", "=", *words[1:]]
    if words[1:2] == ["."]:  # the name of an extension's setting
        words = ["".join(words[:3]), *words[3:]]
    name = words[0] if words else ""
    value = " ".join(map(_unquoted, words[2:]))
    return name, value.replace(" ,", ","), local


def _unquoted(word: str) -> str:
    quote_ = word[0] if word[0] in "'\"" else ""
    return word[1:-1].replace(quote_ * 2, quote_) if quote_ else word


def is_setval(sql: str) -> bool:
    """Whether `sql` is SELECT [pg_catalog.]setval(…), which sets the next number of a sequence."""
    words = [token.text.lower() for token in islice(tokens(sql), 5)]
    return words[:3] == ["select", "setval", "("] or words == [
        *("select", "pg_catalog", ".", "setval", "(")
    ]


def sets_comment(sql: str) -> bool:
    """Whether `sql` is COMMENT ON for a kind of objects that have comments."""
    words = [token.text.lower() for token in islice(tokens(sql), 3)]
    return words[:2] == ["comment", "on"] and not _COMMENTED.isdisjoint(words[2:])


def _is_set_config(sql: str) -> bool:
    """Whether `sql` is SELECT [pg_catalog.]set_config(…), which is a SET."""
    words = [token.text.lower() for token in islice(tokens(sql), 4)]
    return words[1:2] == ["set_config"] or words[1:] == ["pg_catalog", ".", "set_config"]


def table_of_select(sql: str) -> str:
    """CREATE TABLE … AS for a SELECT … INTO name FROM …; "" for other statements."""
    if "into" not in sql.lower():
        return ""
    found = list(tokens(sql))
    words = ["" if token.depth else token.text.lower() for token in found]
    if "into" not in words[: words.index("from") if "from" in words else None]:
        return ""
    into = words.index("into")
    first, more = into + 1, []
    while words[first : first + 1] and words[first] in {"table", "unlogged", "temp", "temporary"}:
        more += [words[first]] if words[first] != "table" else []
        first += 1
    last = first
    while words[last + 1 : last + 2] == ["."]:
        last += 2
    if last >= len(found):
        return ""
    behind = found[last].start + len(found[last].text)
    kind_ = " ".join(["CREATE", *more, "TABLE"]).upper()
    name = text_of(found[first : last + 1], sql)
    return f"{kind_} {name} AS {sql[: found[into].start]}{sql[behind:]}"


_OF_SESSION = re.compile(r"\b(?:currval|lastval)\b", re.IGNORECASE)


def calls_of_session(sql: str) -> set[str]:
    """Which of currval and lastval the statement may call."""
    return {word.lower() for word in _OF_SESSION.findall(sql)}


def draws(sql: str) -> bool:
    """Whether the statement calls nextval."""
    if "nextval" not in sql.lower():
        return False
    words = [token.text.lower() for token in tokens(sql)]
    return ("nextval", "(") in pairwise(words)


def _writes_in_with(sql: str) -> bool:
    """Whether a CTE writes: AS [MATERIALIZED] (DELETE …"""
    words = [token.text.lower() for token in tokens(sql)]
    return any(
        before in {"as", "materialized"} and opening == "(" and word in _WRITES
        for before, opening, word in zip(words, words[1:], words[2:], strict=False)
    )


def _word_after_with(sql: str) -> str:
    """The verb after the CTEs: the first word that follows a closing parenthesis at the WITH's own
    depth and is neither AS nor a comma."""
    outer: int | None = None
    closed = False
    for token in tokens(sql):
        word = token.text.lower()
        if outer is None:
            outer = token.depth if word == "with" else None
        elif token.depth != outer:
            continue
        elif word == ")":
            closed = True
        elif closed and word not in {"as", ","}:
            return word
        else:
            closed = False
    return ""


@cached_for_statements
def names_in(sql: str) -> frozenset[str]:
    """The words after single colons: the names of `:name` parameters, and words of slices."""
    found = [token.text for token in tokens(sql)]
    near = zip(["", *found], found, found[1:], strict=False)
    return frozenset(word for before, colon, word in near if colon == ":" != before)


def split(script: str) -> list[str]:
    """The statements of a script, without their semicolons; empty ones are left out."""
    found: list[str] = []
    start, filled = 0, False
    for token in tokens(script):
        if token.text == ";" and token.depth == 0:
            if filled:
                found.append(script[start : token.start].strip())
            start, filled = token.start + 1, False
        else:
            filled = True
    if filled:
        found.append(script[start:].strip())
    return found


def is_complete(script: str) -> bool:
    """Whether the text ends with a complete statement, for an interactive prompt."""
    texts = [token.text for token in tokens(script)]
    return texts[-1:] == [";"]


def name_of(token: str) -> str:
    """An identifier as the server folds it: lower case unless quoted."""
    if token.startswith('"'):
        return token[1:-1].replace('""', '"')
    return token.lower()


def quote(name: str) -> str:
    """`name` as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def workload_text(workload: Sequence[Mapping[str, Any]]) -> str:
    """The workload of `GET /v1/schema`, as the text of a file for plan and apply."""
    return "\n".join(
        f"-- name: {item['name']}\n-- weight: {item['weight']}\n{item['sql'].rstrip('; ')}\n;"
        for item in workload
    )
