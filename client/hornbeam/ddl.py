"""CREATE, DROP and ALTER as changes of the one schema that the server holds.

Hornbeam has no DDL statements: a schema is planned and applied as a whole, together with the
workload that its views serve. A client's DDL becomes that: the schema in force, changed by the
statement, planned and applied with the workload in force. It takes effect at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hornbeam.errors import NotSupportedError, ProgrammingError
from hornbeam.statements import Token, name_of, quote, split, tokens, workload_text
from hornbeam.transport import Transport, planned_anew

_NOISE = {"if", "not", "exists", "unique", "concurrently", "only"}


def execute_ddl(transport: Transport, statement: str) -> None:
    """Plan and apply the schema that `statement` makes of the one in force.

    Raises ProgrammingError for what exists already or does not exist, NotSupportedError for
    other DDL, and whatever plan and apply raise.
    """
    planned_anew(lambda: _plan_and_apply(transport, statement))


def _plan_and_apply(transport: Transport, statement: str) -> None:
    current = transport.json("GET", "/v1/schema")
    ddl = evolve(current["ddl"], statement)
    if ddl == current["ddl"]:
        return
    body: dict[str, Any] = {
        "ddl": ddl,
        "workload": workload_text(current["workload"]),
        "roots": _kept_roots(current, ddl),
        "method": current["method"],
        "budget": current["budget"],
    }
    try:
        planned = transport.json("POST", "/v1/schema/plan", body)
    except ProgrammingError as error:
        raise _still_read(error, current["ddl"]) from None
    transport.json(
        "POST", "/v1/schema/apply", body | {"plan_id": planned["plan_id"], "allow_drop": True}
    )


def _still_read(error: ProgrammingError, before: str) -> ProgrammingError:
    """The error of a plan; about what was dropped under the workload, in words that know of it."""
    name, statement = error.problem.get("name"), error.problem.get("statement")
    tables = {name for what, name in map(_kind_and_name, split(before)) if what == "table"}
    if statement is None or name not in tables:
        return error
    return ProgrammingError(
        f"Statement {statement} of the workload reads {name}.\n"
        "  Apply a workload without it first: hornbeam schema show --workload, schema apply.",
        error.problem,
    )


def _kept_roots(current: dict[str, Any], ddl: str) -> list[str] | None:
    """The roots in force, so that a statement does not move trees; None without a workload."""
    if not current["workload"]:
        return None
    tables = {name for what, name in map(_kind_and_name, split(ddl)) if what == "table"}
    return [name for name, edge in current["trees"].items() if edge is None and name in tables]


@dataclass(frozen=True)
class _Statement:
    """CREATE UNIQUE INDEX IF NOT EXISTS name …: its words in lower case, the tokens from the name
    on. `guarded`: IF [NOT] EXISTS."""

    verb: str
    what: str
    guarded: bool
    found: Sequence[Token]

    @property
    def name(self) -> str:
        return name_of(self.found[0].text)


def evolve(ddl: str, statement: str) -> str:
    """The schema `ddl` after `statement`; the same text when nothing is to do (IF EXISTS)."""
    text, *more = split(statement)
    if more:
        raise ProgrammingError("These are several statements.\n  Run them one at a time.")
    asked = _read(text)
    match asked.verb, asked.what:
        case "create", "table" | "index":
            return _created(ddl, asked, text)
        case "drop", "table" | "index":
            return _dropped(ddl, asked)
        case "alter", "table":
            return _altered(ddl, asked, text)
    raise NotSupportedError(
        f"{asked.verb.upper()} {asked.what.upper()} is no statement of Hornbeam.\n"
        "  Change the schema's file and run: hornbeam schema apply"
    )


def _created(ddl: str, asked: _Statement, text: str) -> str:
    if asked.found[1:2] and asked.found[1].text == ".":
        raise NotSupportedError(
            f"{asked.name}.{asked.found[2].text} is a qualified name, and there are no schemas.\n"
            "  Leave out what is before the point."
        )
    if (asked.what, asked.name) not in map(_kind_and_name, split(ddl)):
        return f"{ddl}{text};\n"
    if asked.guarded:
        return ddl
    raise ProgrammingError(f"The {asked.what} {quote(asked.name)} exists already.")


def _dropped(ddl: str, asked: _Statement) -> str:
    """DROP TABLE a, b takes their indexes, too."""
    declared, names = split(ddl), _listed(asked)
    known = {name for what, name in map(_kind_and_name, declared) if what == asked.what}
    missing = [name for name in names if name not in known]
    if missing and not asked.guarded:
        raise _unknown(asked.what, missing[0])
    goes = {(asked.what, name) for name in names}
    kept = [s for s in declared if not goes & {_kind_and_name(s), ("table", _indexed(s))}]
    return ddl if kept == declared else "".join(f"{s};\n" for s in kept)


def _listed(asked: _Statement) -> list[str]:
    """The names that a DROP lists. Raises NotSupportedError for what else is there."""
    wrong = [token.text for token in asked.found[1::2] if token.text != ","]
    if wrong:
        raise NotSupportedError(
            f"{wrong[0]} is not known behind DROP {asked.what.upper()} {asked.name}.\n"
            "  Give nothing but names, with commas between them."
        )
    if asked.found[-1].text == ",":
        raise _cut_short()
    return [name_of(token.text) for token in asked.found[::2]]


def _altered(ddl: str, asked: _Statement, text: str) -> str:
    """ALTER TABLE t ADD COLUMN and ADD CONSTRAINT; all go into the table's declaration."""
    elements, declared = list(_added(asked)), split(ddl)
    tables = [known for known in declared if _kind_and_name(known) == ("table", asked.name)]
    if not tables:
        if asked.guarded:
            return ddl
        raise _unknown("table", asked.name)
    (table,) = tables
    changed = table
    for element in elements:
        if element.guarded and name_of(element.found[0].text) in _columns(changed):
            continue
        last = element.found[-1]
        written = text[element.found[0].start : last.start + len(last.text)]
        changed = f"{changed[: changed.rindex(')')].rstrip()},\n  {written}\n)"
    if changed == table:
        return ddl
    return "".join(f"{changed if known is table else known};\n" for known in declared)


def _added(asked: _Statement) -> Iterator[_Statement]:
    """Columns and constraints, with their tokens. Raises NotSupportedError for other changes."""
    for part in _parts(asked.found[1:]):
        if not part:
            raise _cut_short()
        if part[0].text.lower() != "add":
            raise NotSupportedError(
                "Of ALTER TABLE only ADD is known.\n"
                "  Change the schema's file and run: hornbeam schema apply"
            )
        words = [token.text.lower() for token in part]
        first = 2 if words[1:2] == ["column"] else 1
        guarded = words[first : first + 3] == ["if", "not", "exists"]
        behind = part[first + 3 * guarded :]
        if not behind:
            raise _cut_short()
        yield _Statement("add", "", guarded, behind)


def _parts(found: Sequence[Token]) -> list[list[Token]]:
    """What stands between commas."""
    parts: list[list[Token]] = [[]]
    for token in found:
        if token.text == "," and token.depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _columns(table: str) -> set[str]:
    """The first names of what stands between a declaration's parentheses."""
    found = list(tokens(table))
    return {
        name_of(token.text)
        for before, token in pairwise(found)
        if (before.text, before.depth) in {("(", 0), (",", 1)}
    }


def _read(statement: str) -> _Statement:
    """Raises ProgrammingError when the statement ends before it names anything."""
    found = list(tokens(statement))
    what = _behind_noise(found, 1)
    name = _behind_noise(found, what + 1)
    if name >= len(found):
        raise _cut_short()
    guarded = any(token.text.lower() == "exists" for token in found[what:name])
    return _Statement(found[0].text.lower(), found[what].text.lower(), guarded, found[name:])


def _behind_noise(found: Sequence[Token], place: int) -> int:
    while place < len(found) and found[place].text.lower() in _NOISE:
        place += 1
    return place


def _kind_and_name(statement: str) -> tuple[str, str]:
    declared = _read(statement)
    return declared.what, declared.name


def _indexed(statement: str) -> str:
    """The table of a CREATE INDEX name ON table; of another statement no name."""
    declared = _read(statement)
    return name_of(declared.found[2].text) if declared.what == "index" else ""


def _unknown(what: str, name: str) -> ProgrammingError:
    return ProgrammingError(f"The {what} {quote(name)} does not exist.")


def _cut_short() -> ProgrammingError:
    return ProgrammingError(
        "The statement ends before it says what to change.\n"
        "  Write CREATE, DROP or ALTER, then TABLE or INDEX, and a name; behind ADD a column."
    )
