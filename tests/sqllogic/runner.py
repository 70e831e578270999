"""One sqllogictest file, run against one database: an outcome for each record.

A statement that the database refuses or fails leaves other data behind than the file expects. What
names the same relations later is not asked (SKIPPED), so that one refusal counts once. So is the
rest of a transaction that it aborts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice

from hornbeam.statements import tokens
from tests.sqllogic.databases import Answer, Database
from tests.sqllogic.records import (
    Directive,
    Expected,
    Loop,
    Malformed,
    Query,
    Record,
    Statement,
    holds,
    parse,
    substituted,
)
from tests.sqllogic.values import WORDS, agree, hashed

_WRITTEN = re.compile(
    r"\b(?:table|view|into|update|from|type|domain|sequence|schema|macro|function|index"
    r"|replace(?!\s+(?:into|table|view|temp|temporary|macro|function)\b))"
    r"\s+(?:if\s+(?:not\s+)?exists\s+)?(\"[^\"]+\"|[\w.]+)",
    re.I,
)
_ATTACHED = re.compile(r"\s*attach\b.*\bas\s+(\w+)", re.I | re.S)
_DRAWN_FROM = re.compile(r"\b(?:nextval|setval)\s*\(\s*'([\w.]+)'", re.I)
RESTS_ON_UNKNOWN = "rests on a statement that the database does not know"
_COUNTS = re.compile(r"\s*(?:insert|update|delete|merge)\b(?!.*\breturning\b)", re.I | re.S)
_ROLLBACK_TO = re.compile(r"\s*rollback\s+(?:(?:work|transaction)\s+)?to\b", re.I)
"""A return to a savepoint, which a failed transaction does not know if it was set afterwards."""
_RANDOM = re.compile(r"\brandom\s*\(", re.I)
_PLAN = re.compile(r"\s*explain\b", re.I)
_READS = re.compile(r"\s*\(*\s*(?:select|values|from|with|explain|show|describe|table)\b", re.I)
_CHANGES = re.compile(r"\b(?:insert|update|delete|merge|create\s+table)\b", re.I)
_SETTINGS = re.compile(r"\s*(?:set|pragma|reset|use|load|install|call)\b", re.I)
_OTHER_MEANING = re.compile(
    r"null_order|default_order|integer_division|ieee_float|collation|timezone|time zone|schema|"
    r"search_path|calendar|scalar_subquery|use\b|concat_operator|lambda|immediate_transaction",
    re.I,
)
_WITHOUT_EFFECT = {
    *("skip_reload", "noforcestorage", "vector_size", "no_alternative_verify", "json", "icu"),
    *("no_vector_verification", "longdouble", "64bit", "notwindows", "notmingw", "no_extension"),
    *("core_functions", "noalternativeverify", "block_size", "ram", "strinline", "allow_unsigned"),
}
"""What DuckDB's files require and an embedded Hornbeam has, or what does not change answers."""
_IGNORED = {
    *("hash-threshold", "mode", "set", "reset", "sleep", "tags", "subtest", "control", "system"),
    *("reconnect", "test-env", "name:", "group:", "description:", "Include", "hash-threshold:"),
    "kv-batch-size",
}


class Verdict(Enum):
    """How a record ended."""

    PASSED = "passed"
    REFUSED = "refused"
    """Refused by name, and the file expects an answer."""
    ERROR = "error"
    """Another error, and the file expects an answer."""
    WRONG = "wrong answer"
    """Another answer, or an answer where the file expects an error."""
    INTERNAL = "internal error"
    SKIPPED = "not asked"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one record. `sql` has the values of loops; `detail` is the error, or both answers.
    `answer` is None for a record that is not asked."""

    line: int
    sql: str
    verdict: Verdict
    detail: str = ""
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Style:
    """How the files of a corpus write values, errors and conditions. `messages`: errors have to
    match the pattern in the file."""

    values: str
    two_blanks: bool = False
    messages: bool = False

    def records(self, text: str) -> Iterator[Record]:
        """The records of a file. Raises Malformed."""
        of_duckdb = self.values == "duckdb"
        return parse(text, errors_end_at_two_blanks=self.two_blanks, comments_end=of_duckdb)


class _Halt(Exception):
    """The rest of the file is not run."""


@dataclass
class _Run:
    """A run under way. `spoiled`: relations that are not as the file expects; `unknown`: those of
    them that rest on a statement which the database does not know. `seeded`: the file has chosen
    the random numbers of its engine. `stopped`: the connections whose last error is not as the file
    expects."""

    database: Database
    style: Style
    engines: frozenset[str]
    included: Callable[[str], str]
    bound: dict[str, str] = field(default_factory=dict)
    spoiled: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    stopped: set[str] = field(default_factory=set)
    labels: dict[str, Answer] = field(default_factory=dict)
    skips: bool = False
    begun: bool = False
    seeded: bool = False


def run_file(
    text: str, database: Database, engines: frozenset[str], style: Style,
    included: Callable[[str], str], most: int,
) -> list[Outcome]:  # fmt: skip
    """Run the first `most` records of a file. `included` gives the text of a file that it includes.
    Raises Malformed."""
    records = style.records(text)
    return run_records(records, database, engines, style, included, most)


def run_records(
    records: Iterable[Record], database: Database, engines: frozenset[str], style: Style,
    included: Callable[[str], str], most: int,
) -> list[Outcome]:  # fmt: skip
    """Run the first `most` of the records."""
    run = _Run(database, style, engines, included)
    outcomes: list[Outcome] = []
    try:
        outcomes += islice(_records(run, records), most)
    except _Halt as halt:
        if halt.args:
            outcomes.append(Outcome(halt.args[1], "", Verdict.SKIPPED, halt.args[0]))
    return outcomes


def _records(run: _Run, records: Iterable[Record]) -> Iterator[Outcome]:
    for record in records:
        if not all(holds(each, run.engines, run.bound) for each in record.conditions):
            continue
        match record:
            case Directive(word="continue"):
                return
            case Directive():
                yield from _direct(run, record)
            case Loop():
                yield from _loop(run, record)
            case _ if not run.skips:
                run.begun = True
                yield _asked(run, substituted(record, run.bound))


def _loop(run: _Run, loop: Loop) -> Iterator[Outcome]:
    if loop.concurrent:
        raise _Halt("a loop of concurrent clients", loop.line)
    for value in loop.values:
        run.bound |= dict(zip(loop.names, value, strict=True))
        yield from _records(run, loop.body)


def _direct(run: _Run, directive: Directive) -> Iterator[Outcome]:
    word, arguments = directive.word, directive.arguments
    match word:
        case "halt":
            raise _Halt
        case "mode" if arguments[:1] == ("skip",):
            run.skips = True
        case "mode" if arguments[:1] == ("unskip",):
            run.skips = False
        case "user":  # an embedded database has no users
            run.skips = arguments[:1] != ("root",)
        case "set" if arguments[:1] == ("seed",):
            run.seeded = True
        case "restart":
            run.database.restart()
        case "load" if not run.begun:
            pass  # a new file of the engine: our database is new
        case "require" if arguments[:1] and arguments[0] in _WITHOUT_EFFECT:
            pass
        case "include":
            text = _included(run, directive)
            yield from _records(run, run.style.records(text))
        case _ if word not in _IGNORED:
            if word not in {"require", "require-env", "load", "unzip", "let"}:
                raise Malformed(f"line {directive.line}: {word}")
            raise _Halt(f"{word} {' '.join(arguments[:1])}", directive.line)


def _included(run: _Run, directive: Directive) -> str:
    try:
        return run.included(directive.arguments[0])
    except FileNotFoundError:
        raise _Halt(f"include {directive.arguments[0]}", directive.line) from None


def _asked(run: _Run, record: Statement | Query) -> Outcome:
    words = {word.lower() for word in re.findall(r"\w+", record.sql)}
    if "*" in run.spoiled or words & run.spoiled:
        # It may still run well here, and then names more than the file expects.
        _spoil(run, record.sql, unknown=bool(words & run.unknown))
        why = RESTS_ON_UNKNOWN if words & run.unknown else "rests on a failed statement"
        return Outcome(record.line, record.sql, Verdict.SKIPPED, why)
    if run.seeded and _RANDOM.search(record.sql):
        _spoil(run, record.sql, unknown=False)
        return Outcome(record.line, record.sql, Verdict.SKIPPED, "random numbers")
    answer = run.database.ask(record.sql, record.connection)
    rests = answer.aborted or (answer.error and _ROLLBACK_TO.match(record.sql))
    if rests and record.connection in run.stopped:
        _spoil(run, record.sql, unknown=False)
        return Outcome(record.line, record.sql, Verdict.SKIPPED, "its transaction has failed")
    verdict, detail = _judged(run, record, answer)
    if answer.error and not answer.aborted:
        expected = verdict is Verdict.PASSED
        (run.stopped.discard if expected else run.stopped.add)(record.connection)
    if verdict is not Verdict.PASSED:
        _spoil(run, record.sql, unknown=answer.unknown)
    if verdict is not Verdict.PASSED and _SETTINGS.match(record.sql):
        if not _OTHER_MEANING.search(record.sql):
            return Outcome(record.line, record.sql, Verdict.SKIPPED, "a setting", answer)
        run.spoiled.add("*")
    return Outcome(record.line, record.sql, verdict, detail, answer)


def _spoil(run: _Run, sql: str, *, unknown: bool) -> None:
    """Note that the statement did not write what the file expects."""
    written = set(map(_own_name, _DRAWN_FROM.findall(sql)))
    if not _only_reads(sql):
        written |= _written(sql)
    run.spoiled |= written
    run.unknown |= written if unknown else set()


def _only_reads(sql: str) -> bool:
    return bool(_READS.match(sql)) and not _CHANGES.search(sql)


def _written(sql: str) -> set[str]:
    """The names that a statement creates, writes or drops."""
    names = map(_own_name, (*_WRITTEN.findall(sql), *_ATTACHED.findall(sql)))
    return {name for name in names if name not in {"set", "select", "if"}}


def _own_name(name: str) -> str:
    """A name without its schema."""
    return name.strip('"').lower().split(".")[-1]


def _judged(run: _Run, record: Statement | Query, answer: Answer) -> tuple[Verdict, str]:
    if answer.internal:
        return Verdict.INTERNAL, answer.error
    if isinstance(record, Query):
        if answer.error:
            return _failed(answer)
        return _compared(run, record, answer)
    match record.expected:
        case Expected.MAYBE:
            return Verdict.PASSED, ""
        case Expected.ERROR:
            return _judged_error(run, record, answer)
    if answer.error:
        return _failed(answer)
    if record.expected is Expected.COUNT and answer.count != record.count:
        return Verdict.WRONG, f"{answer.count} rows, not {record.count}"
    return Verdict.PASSED, ""


def _failed(answer: Answer) -> tuple[Verdict, str]:
    return Verdict.REFUSED if answer.refused else Verdict.ERROR, answer.error


def _judged_error(run: _Run, record: Statement, answer: Answer) -> tuple[Verdict, str]:
    if not answer.error:
        return Verdict.WRONG, f"an answer, not an error ({record.pattern[:60]})"
    if run.style.messages and not re.search(record.pattern, answer.error, re.S):
        return Verdict.WRONG, f"another error: {answer.error}"
    return Verdict.PASSED, ""


def _compared(run: _Run, query: Query, answer: Answer) -> tuple[Verdict, str]:
    rows = answer.rows
    counts = _COUNTS.match(query.sql) or (not rows and answer.count > 0)  # EXECUTE of a write
    if counts and run.style.values == "duckdb":
        rows = ((answer.count,),)
    if _PLAN.match(query.sql):
        return Verdict.SKIPPED, "a plan, which each engine writes in its own way"
    if query.label:
        first = run.labels.setdefault(query.label, answer)
        if sorted(map(repr, first.rows)) != sorted(map(repr, rows)) and not query.result:
            return Verdict.WRONG, f"another answer than before for label {query.label}"
        if not query.result:
            return Verdict.PASSED, ""
    if rows and query.types and len(rows[0]) != len(query.types) and not hashed(query.result):
        wanted = len(query.types)
        if run.style.values not in WORDS:
            return Verdict.WRONG, f"{len(rows[0])} columns, not {wanted}"
    sort = query.sort if query.sort != "nosort" or _is_ordered(query.sql) else "rowsort"
    if agree(rows, query.types, sort, query.result, run.style.values):
        return Verdict.PASSED, ""
    if sort != query.sort and hashed(query.result):
        return Verdict.SKIPPED, "a hash of rows in no order"
    ours = " | ".join("\t".join(map(str, row)) for row in rows[:6])
    theirs = " | ".join(query.result[:12])
    return Verdict.WRONG, f"{len(rows)} rows: {ours[:300]}  ≠  {theirs[:300]}"


def _is_ordered(sql: str) -> bool:
    """Whether the query has an ORDER BY of its own. The rows of others are compared as a bag."""
    return any(token.text.lower() == "order" and not token.depth for token in tokens(sql))


def counted(outcomes: Sequence[Outcome]) -> Mapping[Verdict, int]:
    return {each: sum(o.verdict is each for o in outcomes) for each in Verdict}
