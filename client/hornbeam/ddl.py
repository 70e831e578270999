"""CREATE, DROP and ALTER as changes of the one schema that the server holds.

Hornbeam has no DDL statements: a schema is planned and applied as a whole, together with the
workload that its views serve. A client's DDL becomes that: the schema in force, changed by the
statement, planned and applied with the workload in force. It takes effect at once.
"""

from __future__ import annotations

import time
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


def evolve(ddl: str, statement: str) -> str:
    """The schema `ddl` after `statement`; the same text when nothing is to do (IF EXISTS)."""
    (statement,) = split(statement)
    words = [token.text.lower() for token in tokens(statement)]
    verb, what = words[0], words[2] if words[1] == "unique" else words[1]
    guarded = "exists" in words[:5]
    if verb == "alter" and what == "table":
        return _altered(ddl, statement)
    if verb not in {"create", "drop"} or what not in {"table", "index"}:
        raise NotSupportedError(
            f"{verb.upper()} {what.upper()} is no statement of Hornbeam.\n"
            "  Change the schema's file and run: hornbeam schema apply"
        )
    name = _subject(statement)
    known = [known for known in split(ddl) if _kind_and_name(known) == (what, name)]
    if bool(known) == (verb == "create"):
        if guarded:
            return ddl
        problem = "exists already" if known else "does not exist"
        raise ProgrammingError(f"The {what} {quote(name)} {problem}.")
    if verb == "create":
        return f"{ddl}{statement};\n"
    kept = [s for s in split(ddl) if s not in known and not (what == "table" and _on(s, name))]
    return "".join(f"{s};\n" for s in kept)


def _altered(ddl: str, statement: str) -> str:
    """ALTER TABLE t ADD COLUMN and ADD CONSTRAINT; both go into the table's declaration."""
    found = list(tokens(statement))
    add = next((i for i, token in enumerate(found) if token.text.lower() == "add"), None)
    if add is None:
        raise NotSupportedError(
            "Of ALTER TABLE only ADD is known.\n"
            "  Change the schema's file and run: hornbeam schema apply"
        )
    element = found[add + 1]
    if element.text.lower() == "column":
        element = found[add + 2]
    name, changed = _subject(statement), []
    statements = split(ddl)
    for known in statements:
        if _kind_and_name(known) == ("table", name):
            end = known.rindex(")")
            known = f"{known[:end].rstrip()},\n  {statement[element.start :].strip()}\n)"  # noqa: PLW2901
        changed.append(known)
    if changed == statements:
        raise ProgrammingError(f"The table {quote(name)} does not exist.")
    return "".join(f"{s};\n" for s in changed)


def _subject(statement: str) -> str:
    """The name behind CREATE TABLE, DROP INDEX IF EXISTS, ALTER TABLE …"""
    return name_of(_after_verb(statement)[1].text)


def _after_verb(statement: str) -> list[Token]:
    """The tokens from TABLE or INDEX on, without IF [NOT] EXISTS."""
    found = list(tokens(statement))[1:]
    return [token for token in found if token.text.lower() not in _NOISE]


def _kind_and_name(statement: str) -> tuple[str, str]:
    what, name, *_ = _after_verb(statement)
    return what.text.lower(), name_of(name.text)


def _on(statement: str, table: str) -> bool:
    """Is `statement` a CREATE INDEX on `table`?"""
    what, _, *rest = _after_verb(statement)
    return what.text.lower() == "index" and name_of(rest[1].text) == table
