"""CREATE, DROP and ALTER as changes of the one schema that the server holds.

Hornbeam has no DDL statements: a schema is planned and applied as a whole, together with the
workload that its views serve. A client's DDL becomes that: the schema in force, changed by the
statement, planned and applied with the workload in force. It takes effect at once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hornbeam.errors import NotSupportedError, OperationalError, ProgrammingError
from hornbeam.statements import Token, name_of, quote, split, tokens, workload_text
from hornbeam.transport import MAX_ATTEMPTS, Transport

_NOISE = {"if", "not", "exists", "unique", "concurrently"}


def execute_ddl(transport: Transport, statement: str) -> None:
    """Plan and apply the schema that `statement` makes of the one in force.

    Raises ProgrammingError for what exists already or does not exist, NotSupportedError for
    other DDL, and whatever plan and apply raise. A view or index that becomes readable meanwhile
    makes a plan stale; then it is made anew.
    """
    for attempt in range(MAX_ATTEMPTS):
        try:
            _plan_and_apply(transport, statement)
        except OperationalError as error:
            if error.code != "stale-plan" or attempt == MAX_ATTEMPTS - 1:
                raise
            time.sleep(0.01 * 2**attempt)
        else:
            return


def _plan_and_apply(transport: Transport, statement: str) -> None:
    current = transport.json("GET", "/v1/schema")
    ddl = evolve(current["ddl"], statement)
    if ddl == current["ddl"]:
        return
    body: dict[str, Any] = {
        "ddl": ddl,
        "workload": workload_text(current["workload"]),
        "roots": _kept_roots(current, ddl),
    }
    planned = transport.json("POST", "/v1/schema/plan", body)
    transport.json(
        "POST", "/v1/schema/apply", body | {"plan_id": planned["plan_id"], "allow_drop": True}
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
    """ALTER TABLE t ADD COLUMN and ADD CONSTRAINT; both go into the table's declaration."""
    element, declared = text[_added(asked).start :], split(ddl)
    tables = [known for known in declared if _kind_and_name(known) == ("table", asked.name)]
    if not tables:
        if asked.guarded:
            return ddl
        raise _unknown("table", asked.name)
    (table,) = tables
    head = table[: table.rindex(")")].rstrip()
    changed = f"{head},\n  {element}\n)"
    return "".join(f"{changed if known is table else known};\n" for known in declared)


def _added(asked: _Statement) -> Token:
    """Where the column or constraint begins. Raises NotSupportedError for other changes."""
    words = [token.text.lower() for token in asked.found]
    if words[1:2] not in ([], ["add"]):
        raise NotSupportedError(
            "Of ALTER TABLE only ADD is known.\n"
            "  Change the schema's file and run: hornbeam schema apply"
        )
    if any(token.text == "," and token.depth == 0 for token in asked.found):
        raise NotSupportedError("ALTER TABLE adds one thing.\n  Write a statement for each.")
    behind = asked.found[3 if words[2:3] == ["column"] else 2 :]
    if not behind:
        raise _cut_short()
    return behind[0]


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
