r"""Splits a file into its statements, by the lexical rules of its dialect.

The parser's tokenizer does not split a file: it fails on rows behind COPY … FROM stdin, on lines
for a client program (psql's \connect, DELIMITER, GO), and takes minutes for a dump of some hundred
megabytes. The scanner only skips comments, strings and quoted names, and finds where a statement
ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hornbeam_server.schema.ddl.sources import Source
from hornbeam_server.schema.ddl.spaces import NAME, PUBLIC_ALONE, Spaces
from hornbeam_server.schema.drafts import Place

_PLAIN = r"'(?:[^']++|'')*+'|\"(?:[^\"]++|\"\")*+\""
_TEXT = {
    Source.POSTGRES: r"(?<=\W[eE])'(?:[^'\\]++|\\.|'')*+'|"
    + _PLAIN
    + r"|(?<![\w$])\$(?P<tag>(?:[^\W\d]\w*)?)\$.*?\$(?P=tag)\$",
    Source.MYSQL: r"'(?:[^'\\]++|\\.|'')*+'|\"(?:[^\"\\]++|\\.|\"\")*+\"|`(?:[^`]++|``)*+`",
    Source.SQLITE: _PLAIN + r"|`(?:[^`]++|``)*+`|\[[^\]]*+\]",
    Source.SQLSERVER: _PLAIN + r"|\[(?:[^\]]++|\]\])*+\]",
}
"""Strings and quoted names, by dialect."""
_SIGNS = {
    Source.POSTGRES: "'\"$/-",
    Source.MYSQL: "'\"`/#-",
    Source.SQLITE: "'\"`[/-",
}
"""The signs that begin strings, quoted names and comments."""
_UNCLOSED = {
    Source.POSTGRES: r"['\"]|(?<![\w$])\$(?:[^\W\d]\w*)?\$",
    Source.MYSQL: r"['\"`]",
    Source.SQLITE: r"['\"`\[]",
    Source.SQLSERVER: r"['\"\[]",
}
_LINE_COMMENT = {Source.MYSQL: r"--(?=\s|\Z)[^\n]*|\#[^\n]*"}
_NESTED = {Source.POSTGRES, Source.SQLSERVER}
"""The dialects whose comments nest."""
_ROUTINE_WORDS = r"END\s+(?:IF|LOOP|WHILE|REPEAT)\b|(?P<ends>END\b(?:\s+CASE\b)?)"
_ROUTINE_WORDS += r"|(?P<begins>(?:BEGIN|CASE)\b)"
_ROUTINE = re.compile(
    r"CREATE\s+(?:OR\s+(?:REPLACE|ALTER)\s+)?(?:DEFINER\s*=\s*\S+\s+)?"
    r"(?:TEMP\w*\s+|CONSTRAINT\s+)?(?:TRIGGER|PROC|PROCEDURE|FUNCTION|EVENT)\b",
    re.IGNORECASE,
)
_BEGINNINGS = (
    "CREATE|ALTER|DROP|INSERT|UPDATE|DELETE|MERGE|SET|USE|IF|EXEC|EXECUTE|PRINT|DECLARE|GRANT"
    "|TRUNCATE|BEGIN|COMMIT|RAISERROR|CHECKPOINT|DBCC|WHILE"
)
"""Words that begin a statement of SQL Server at the beginning of a line, also without `;`."""
_GO = r"GO[ \t]*(?:\d+[ \t]*)?;?[ \t\r]*$"
_CLIENT_LINE = re.compile(rf"{_GO}|:[^\n]*", re.IGNORECASE | re.MULTILINE)
"""A line for SQL Server's client: GO, :setvar name value."""
CREATE_SCHEMA = re.compile(
    r"CREATE\s+(?:SCHEMA|DATABASE)\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    rf"(?:AUTHORIZATION\s+(?!(?:CURRENT|SESSION)_))?(?P<name>{NAME})(?P<more>.*)",
    re.IGNORECASE | re.DOTALL,
)
"""A schema with an owner alone has the owner's name; that of the current user is not known."""
_EDGE = re.compile(r"/\*|\*/")
_COPY = re.compile(r"COPY\b[^;]*\bFROM\s+stdin\b", re.IGNORECASE)
_COPY_END = re.compile(r"^\\\.\r?$\n?", re.MULTILINE)
_DELIMITER = re.compile(r"DELIMITER[ \t]+(\S+)[^\n]*", re.IGNORECASE)
_SOURCE_FILE = re.compile(r"(?:SOURCE\b|\\\.)[^\n;]*;?", re.IGNORECASE)
_PSQL = re.compile(r"\\[^\n]*")
_WORDS = 12
_FLAGS = re.DOTALL | re.IGNORECASE | re.MULTILINE


@dataclass(frozen=True, slots=True)
class Piece:
    """A statement of a file, without its delimiter, or a line for a client program.

    `start` and `end` are offsets in `file_text`; so are `rows`, the lines behind COPY … FROM stdin.
    """

    file_text: str = field(repr=False)
    start: int
    end: int
    place: Place
    words: tuple[str, ...]
    """The first words and signs, in upper case."""
    rows: tuple[int, int] | None = None
    spaces: Spaces = PUBLIC_ALONE
    """The schemas that are known at the statement (`located.py`)."""
    schema: str = ""
    """The schema of the CREATE SCHEMA that the statement is an element of, as it is written."""

    @property
    def text(self) -> str:
        return self.file_text[self.start : self.end]


def pieces(text: str, file: str, source: Source) -> Iterator[Piece]:
    """The statements of a file in order. Raises SchemaError at a quote or comment that is not
    closed."""
    return _Scanner(text, file, source).pieces()


class _Scanner:
    def __init__(self, text: str, file: str, source: Source) -> None:
        self._text, self._file, self._source = text, file, source
        comment = _LINE_COMMENT.get(source, r"--[^\n]*")
        self._skip = f"{comment}|{_TEXT[source]}|(?P<block>/\\*)"
        self._blank = re.compile(rf"\s+|{comment}|(?P<block>/\*)", _FLAGS)
        self._between = re.compile(rf"\s+|{comment}|--[^\n]*|(?P<block>/\*)", _FLAGS)
        self._word = re.compile(rf"{_TEXT[source]}|\w+|.", _FLAGS)
        self._line, self._line_start, self._counted = 1, 0, 0
        self._delimiter = ";"

    def pieces(self) -> Iterator[Piece]:
        at = self._beginning(0)
        while at < len(self._text):
            end = self._order_end(at)
            if end is not None:
                yield self._piece(at, end)
                at = self._beginning(end)
                continue
            end, after = self._end(at)
            if end == at:
                at = self._beginning(after)
                continue
            piece = self._piece(at, end)
            if self._has_elements(piece):
                yield from self._elements(piece)
                at = self._beginning(after)
                continue
            rows = None
            if piece.words[:1] == ("COPY",) and _COPY.match(self._text, at, end):
                rows, after = self._copied(after)
            place, words = piece.place, piece.words
            yield Piece(self._text, at, end, place, words, rows)
            at = self._beginning(after)

    def _beginning(self, at: int) -> int:
        """The beginning of the next statement. Before it, a line of hyphens is a comment in all
        dialects, also in MySQL's client."""
        return self._skipped(self._between, at)

    def _after_blanks(self, at: int) -> int:
        return self._skipped(self._blank, at)

    def _skipped(self, blank: re.Pattern[str], at: int) -> int:
        while found := blank.match(self._text, at):
            at = self._comment_end(found.start()) if found["block"] else found.end()
        return at

    def _comment_end(self, start: int) -> int:
        """The offset behind the comment that begins at `start`."""
        level, at = 1, start + 2
        while edge := _EDGE.search(self._text, at):
            at = edge.end()
            opens = edge[0] == "/*"
            level += 1 if opens and self._source in _NESTED else 0 if opens else -1
            if not level:
                return at
        raise self._unclosed(start)

    def _order_end(self, at: int) -> int | None:
        """The end of the line for a client program that begins at `at`; None for a statement."""
        text = self._text
        match self._source:
            case Source.POSTGRES:
                found = _PSQL.match(text, at)
            case Source.MYSQL if found := _DELIMITER.match(text, at):
                self._delimiter = found[1]
            case Source.MYSQL:
                found = _SOURCE_FILE.match(text, at)
            case Source.SQLSERVER:
                found = _CLIENT_LINE.match(text, at) if self._begins_line(at) else None
            case _:
                found = None
        return found.end() if found else None

    def _begins_line(self, at: int) -> bool:
        while at and self._text[at - 1] in " \t":
            at -= 1
        return at == 0 or self._text[at - 1] == "\n"

    def _stops(self, routine: bool) -> re.Pattern[str]:
        """What ends a statement, and what is skipped before that."""
        unclosed = rf"|(?P<unclosed>{_UNCLOSED[self._source]})"
        if self._source is Source.SQLSERVER:
            more = rf"|^[ \t]*(?P<next>{_GO})"
            if not routine:
                more += r"|(?P<end>;)|(?P<opens>\()|(?P<closes>\))"
                more += rf"|^[ \t]*(?P<begin>(?:{_BEGINNINGS})\b)"
            return re.compile(f"{self._skip}{more}{unclosed}", _FLAGS)
        end = f"|(?P<end>{re.escape(self._delimiter)})"
        if routine and self._delimiter == ";":
            words = rf"|\b(?:{_ROUTINE_WORDS})"
            return re.compile(f"{self._skip}{end}{words}{unclosed}", _FLAGS)
        signs = re.escape(_SIGNS[self._source] + self._delimiter[0])
        return re.compile(f"[^{signs}]*+(?:{self._skip}{end}{unclosed}|.)", _FLAGS)

    def _end(self, start: int) -> tuple[int, int]:
        """The end of the statement that begins at `start`, and the offset behind its delimiter."""
        stops = self._stops(routine=_ROUTINE.match(self._text, start) is not None)
        # A pattern that consumes all other characters fails at once where no sign follows.
        find = stops.match if stops.pattern.startswith("[^") else stops.search
        at, depth, blocks = start, 0, 0
        while found := find(self._text, at):
            at = found.end()
            stop = found.lastgroup
            match stop:
                case None:
                    continue
                case "block":
                    at = self._comment_end(found.start(stop))
                case "end" if blocks <= 0:
                    return self._trimmed(start, found.start(stop)), at
                case "next":
                    return self._trimmed(start, found.start(stop)), found.start(stop)
                case "begin" if depth <= 0 and found.start(stop) > start:
                    return self._trimmed(start, found.start()), found.start(stop)
                case "opens":
                    depth += 1
                case "closes":
                    depth -= 1
                case "begins":
                    blocks += 1
                case "ends":
                    blocks -= 1
                case "unclosed":
                    raise self._unclosed(found.start(stop))
        return self._trimmed(start, len(self._text)), len(self._text)

    def _has_elements(self, piece: Piece) -> bool:
        """May it be a CREATE SCHEMA of a file with the statements of its relations?"""
        of_file = self._source is Source.POSTGRES and self._file != ""
        return of_file and piece.words[:2] == ("CREATE", "SCHEMA")

    def _elements(self, whole: Piece) -> Iterator[Piece]:
        """CREATE SCHEMA by itself, and its elements as statements."""
        begins = [whole.start, *self._element_starts(whole), whole.end]
        named = CREATE_SCHEMA.match(self._text, whole.start, whole.end)
        schema = "" if named is None else named["name"]
        for start, end in pairwise(begins):
            piece = self._piece(start, self._trimmed(start, end))
            yield replace(piece, schema=schema) if start > whole.start else piece

    def _element_starts(self, whole: Piece) -> Iterator[int]:
        signs = r"(?P<opens>\()|(?P<closes>\))|\b(?P<begin>CREATE|GRANT)\b"
        stops = re.compile(f"{self._skip}|{signs}", _FLAGS)
        at, depth = whole.start + len("CREATE"), 0
        while found := stops.search(self._text, at, whole.end):
            at = found.end()
            match found.lastgroup:
                case "block":
                    at = self._comment_end(found.start())
                case "opens":
                    depth += 1
                case "closes":
                    depth -= 1
                case "begin" if depth == 0:
                    yield found.start()

    def _trimmed(self, start: int, end: int) -> int:
        while end > start and self._text[end - 1].isspace():
            end -= 1
        return end

    def _copied(self, after: int) -> tuple[tuple[int, int], int]:
        """The rows behind COPY … FROM stdin;, and the offset behind them."""
        first = self._text.find("\n", after) + 1 or len(self._text)
        end = _COPY_END.search(self._text, first)
        if end is None:
            return (first, len(self._text)), len(self._text)
        return (first, end.start()), end.end()

    def _piece(self, start: int, end: int) -> Piece:
        return Piece(self._text, start, end, self._place(start), self._words(start, end))

    def _words(self, start: int, end: int) -> tuple[str, ...]:
        words: list[str] = []
        at = self._after_blanks(start)
        while at < end and len(words) < _WORDS and (found := self._word.match(self._text, at)):
            words.append(found[0].upper())
            at = self._after_blanks(found.end())
        return tuple(words)

    def _place(self, offset: int) -> Place:
        """The place of an offset. Offsets are asked in order, so lines are counted once."""
        if offset < self._counted:
            return Place.at(self._text, offset, self._file)
        self._line += self._text.count("\n", self._counted, offset)
        self._line_start = self._text.rfind("\n", self._counted, offset) + 1 or self._line_start
        self._counted = offset
        return Place(self._file, self._line, offset - self._line_start + 1)

    def _unclosed(self, offset: int) -> Exception:
        return Place.at(self._text, offset, self._file).error(
            f"Unreadable text: {self._text[offset : offset + 20]!r} is not closed.",
            cure="Close the quote or the comment.",
        )
