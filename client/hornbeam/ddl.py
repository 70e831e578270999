"""CREATE, DROP, ALTER and RENAME as changes of the one schema that the server holds.

Hornbeam has no DDL statements: a schema is planned and applied as a whole, together with the
workload that its views serve. The client translates a DDL statement: it changes the text of the
schema in force, then plans and applies it with the workload in force. The server changes the text
for ALTER, RENAME and DROP … CASCADE, because it knows what uses what. The change takes effect at
once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hornbeam.errors import DatabaseError, NotSupportedError, ProgrammingError, from_problem
from hornbeam.namespaces import PUBLIC, Names, joined, parted, read_name, set_path
from hornbeam.restarting import parted as parted_restart
from hornbeam.restarting import restarts
from hornbeam.statements import (
    Token,
    is_setval,
    quote,
    separated,
    sets_comment,
    split,
    table_of_select,
    text_of,
    tokens,
    workload_text,
)
from hornbeam.transport import Requests, replanned
from hornbeam.views import refresh, wait_until_all_readable, wait_until_readable

DDL = ""
"""The file name of DDL that the user has not written, for example of the schema in force."""
_ALTERS = {"alter", "rename"}
_BEHIND_DROP = {"cascade", "restrict"}
_NOISE = {"if", "not", "exists", "unique", "concurrently", "only"}
_BEFORE_KIND = {*_NOISE, "or", "replace", "unlogged"}
MATERIALIZED = "materialized view"
PASSED_OVER = "passed over: view "
"""The beginning of a note about a plain view that cannot be read."""


async def execute_ddl(
    requests: Requests,
    statement: str,
    insert: Callable[[str], Awaitable[int]],
    parameters: Sequence[Any] | Mapping[str, Any] = (),
    path: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Change the schema in force by `statement`, then plan and apply it. `path` is the search path
    of its names; None: `public`. A statement that restarts an identity column or a sequence changes
    its other options before. Immediate views that the change builds can be read when this
    function returns. `insert` runs the INSERT that fills the table of CREATE TABLE … AS; if it
    fails, the table is dropped. Returns the answer to setval, which alone has `parameters`;
    `affected`, the number of rows of such a table; `notice`, why COMMENT ON has no effect; or
    nothing.

    Raises ProgrammingError if an object exists already or does not exist, NotSupportedError for
    other DDL, and the errors of plan and apply.
    """
    statement = table_of_select(statement) or statement
    if restarts(statement):
        return await _restart(requests, statement, parameters, path)
    if sets_comment(statement):
        answer = await requests.json("POST", "/v1/schema/comment", _body(statement, path))
        return {"notice": answer["notice"]}
    asked = _read(statement)
    if asked.verb == "refresh":
        names = _names((await requests.json("GET", "/v1/schema"))["ddl"], path)
        await refresh(requests, names.old(MATERIALIZED, asked.parts))
        return {}
    fill, before = await replanned(
        lambda: _plan_and_apply(requests, statement, path), requests.pause
    )
    if fill:
        try:
            return {"affected": await insert(fill)}
        except BaseException:
            name = ".".join(map(quote, asked.parts))
            await replanned(
                lambda: _plan_and_apply(requests, f"DROP TABLE {name}", path), requests.pause
            )
            raise
    if (asked.verb, asked.what) == ("create", MATERIALIZED):
        await wait_until_readable(requests, _names(before, path).new(asked.parts))
    if asked.verb in _ALTERS:
        await wait_until_all_readable(requests)
    return {}


async def _restart(
    requests: Requests,
    statement: str,
    parameters: Sequence[Any] | Mapping[str, Any],
    path: Sequence[str] | None,
) -> dict[str, Any]:
    """Set the next number, after other options of the statement. The present number has to be
    within the bounds at each change: so it is set before as well, if the old bounds have it."""
    options, restart = parted_restart(statement)
    body = _body(restart, path) | {"parameters": parameters}
    if options:
        await requests.json("POST", "/v1/schema/alter", _body(options, path))  # checks all of them
        with suppress(ProgrammingError):
            await requests.json("POST", "/v1/schema/restart", body)
        await replanned(lambda: _plan_and_apply(requests, options, path), requests.pause)
    answer: dict[str, Any] = await requests.json("POST", "/v1/schema/restart", body)
    return answer if is_setval(statement) else {}


def _body(statement: str, path: Sequence[str] | None) -> dict[str, Any]:
    """The body of a request with a statement."""
    return {"sql": statement} | ({} if path is None else {"search_path": list(path)})


async def _plan_and_apply(
    requests: Requests, statement: str, path: Sequence[str] | None
) -> tuple[str, str]:
    """Change the schema. Returns the INSERT that fills a new table, or "", and the text of the
    schema before the change."""
    current = await requests.json("GET", "/v1/schema")
    changed = await _changed(requests, current["ddl"], statement, path)
    ddl = str(changed["ddl"])
    try:
        await put_into_force(
            requests,
            current,
            ddl,
            allow_drop=True,
            renames=changed.get("renames", ()),
            usings=changed.get("usings", ()),
        )
    except ProgrammingError as error:
        explained = _still_read(error, current["ddl"])
        raise (placed(error, ddl, statement) if explained is error else explained) from None
    return str(changed.get("insert", "")), current["ddl"]


async def _changed(
    requests: Requests, ddl: str, statement: str, path: Sequence[str] | None
) -> dict[str, Any]:
    """The schema in force, `ddl`, after `statement`, as the member `ddl`. The server adds `insert`,
    which fills a new table, and the `renames`, and the `usings` of columns."""
    if not _needs_server(statement, ddl):
        return {"ddl": evolve(ddl, statement, path)}
    answer: dict[str, Any] = await requests.json("POST", "/v1/schema/alter", _body(statement, path))
    return answer | {"ddl": ddl} if answer["same"] else answer


def _needs_server(statement: str, ddl: str) -> bool:
    """Whether only the server can change the schema in force, `ddl`, by the statement."""
    words = [token.text.lower() for token in tokens(statement) if token.text != ";"]
    outside = {token.text.lower() for token in tokens(statement) if not token.depth}
    if words[:2] == ["create", "table"]:
        return "as" in outside
    # A sequence may end with its table, and defaults may take numbers from it.
    sequences = "CREATE SEQUENCE " in ddl or "nextval(" in ddl
    if words[0] == "drop" and words[1:2] and words[1] in {"sequence", "schema", "type", "domain"}:
        return True
    if words[:2] == ["drop", "table"] and sequences:
        return True
    return words[0] in _ALTERS or (words[:1] == ["drop"] and words[-1] in _BEHIND_DROP)


async def put_into_force(
    requests: Requests,
    current: dict[str, Any],
    ddl: str,
    *,
    allow_drop: bool,
    file: str = DDL,
    renames: Sequence[dict[str, Any]] = (),
    usings: Sequence[dict[str, str]] = (),
) -> Sequence[str]:
    """Plan and apply `ddl` with the workload and the options of `current`, the schema in force. Do
    nothing if it is the same. `file`: plain views that cannot be read are passed over, since a
    user's file has them. `renames`: what `ddl` calls by other names; `usings`: values of
    columns that get another type. Returns the notes of the plan about views."""
    if ddl == current["ddl"] and not usings:
        return ()
    body: dict[str, Any] = {
        "ddl": ddl,
        "ddl_file": file,
        "workload": None if renames else workload_text(current["workload"]),
        "roots": _kept_roots(current, ddl, renames),
        "method": current["method"],
        "budget": current["budget"],
        "aggregates": current["aggregates"],
        "renames": list(renames),
        "usings": list(usings),
    }
    planned = await requests.json("POST", "/v1/schema/plan", body)
    confirmed = body | {"plan_id": planned["plan_id"], "allow_drop": allow_drop}
    await requests.json("POST", "/v1/schema/apply", confirmed)
    lines = (line.strip() for line in planned["text"].splitlines())
    return [line for line in lines if line.startswith(PASSED_OVER)]


def _still_read(error: ProgrammingError, before: str) -> ProgrammingError:
    """The error of a plan. If the statement drops a table that the workload reads, the result is an
    error that says so."""
    name, statement = error.problem.get("name"), error.problem.get("statement")
    tables = _tables(before)
    if "view" in error.problem and name in tables:
        return ProgrammingError(
            f"View {error.problem['view']} reads {name}.\n  Drop the view first.", error.problem
        )
    if statement is None or name not in tables:
        return error
    return ProgrammingError(
        f"Statement {statement} of the workload reads {name}.\n"
        "  Apply a workload without it first: hornbeam schema show --workload, schema apply.",
        error.problem,
    )


def placed(error: DatabaseError, ddl: str, statement: str = "") -> DatabaseError:
    """An error of a plan of `ddl`, with a place that the user knows. Of `ddl` the user has written
    only the text of `statement`. If the place is in that text, the result names the place in
    `statement`; otherwise it quotes the declaration at the place."""
    line, column = error.problem.get("line", 0), error.problem.get("column", 0)
    if not line:
        return error
    unplaced = {"file", "line", "column", "problems"}
    problem = {k: v for k, v in error.problem.items() if k not in unplaced}
    if error.problem.get("file", DDL) != DDL:  # the error names its statement
        return from_problem(problem)
    offset = sum(len(each) + 1 for each in ddl.split("\n")[: line - 1]) + column - 1
    for start, text in _written(statement) if statement else ():
        at = ddl.rfind(text, 0, offset + len(text))
        if 0 <= at <= offset <= at + len(text):
            before = statement[: start + offset - at]
            line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
            return from_problem(problem | {"line": line, "column": column})
    near = _around(ddl, offset).split("\n")[0].rstrip(" (")
    return from_problem(problem | {"detail": f"{problem.get('detail', '')}, in: {near}"})


def _around(ddl: str, offset: int) -> str:
    """The declaration at an offset in the schema's text."""
    end, declared = 0, ""
    for declared in split(ddl):
        end = ddl.index(declared, end) + len(declared)
        if offset <= end:
            break
    return declared


def _written(statement: str) -> list[tuple[int, str]]:
    """The parts of a statement that are copied into the schema's text, each with its offset in the
    statement."""
    (text, *_) = split(statement)
    begin, parsed = statement.index(text), _read(text)
    if parsed.verb != "alter":
        return [(begin, text)]
    return [(begin + added[0].start, text_of(added, text)) for added in _added(parsed)]


def _added(asked: _Statement) -> Iterator[Sequence[Token]]:
    """The columns and constraints that ALTER TABLE … ADD adds."""
    for part in separated(asked.found[1:], 0):
        words = [token.text.lower() for token in part]
        if words[:1] != ["add"]:
            continue
        first = 2 if words[1:2] == ["column"] else 1
        first += 3 * (words[first : first + 3] == ["if", "not", "exists"])
        if part[first:]:
            yield part[first:]


def _kept_roots(
    current: dict[str, Any], ddl: str, renames: Sequence[dict[str, Any]]
) -> list[str] | None:
    """The roots in force by their names in `ddl`, so that a statement does not change the trees;
    None without a workload."""
    if not current["workload"]:
        return None
    roots = [name for name, edge in current["trees"].items() if edge is None]
    for rename in renames:
        roots = [_after(rename, name) for name in roots]
    tables = _tables(ddl)
    return [name for name in roots if name in tables]


def _after(rename: dict[str, Any], name: str) -> str:
    """The name of a table after a rename."""
    if rename.get("space"):
        space, own = parted(name, (rename["relation"],))
        return name if space == PUBLIC else joined(rename["new"], own)
    return rename["new"] if not rename["column"] and name == rename["relation"] else name


@dataclass(frozen=True)
class _Statement:
    """A parsed statement, such as CREATE UNIQUE INDEX IF NOT EXISTS name …. `verb` (CREATE) and
    `what` (INDEX) are in lower case. `found` are the tokens from the name on. `guarded`: the
    statement has IF [NOT] EXISTS."""

    verb: str
    what: str
    guarded: bool
    found: Sequence[Token]
    replaces: bool = False

    @property
    def parts(self) -> list[str]:
        """The parts of the name."""
        return read_name(self.found, 0)[0]

    @property
    def on(self) -> list[str]:
        """The parts of the name of the table of CREATE INDEX; empty for other statements."""
        words = [token.text.lower() for token in self.found]
        if self.what != "index" or "on" not in words:
            return []
        at = words.index("on") + 1
        return read_name(self.found, at + (words[at : at + 1] == ["only"]))[0]


def evolve(ddl: str, statement: str, path: Sequence[str] | None = None) -> str:
    """The schema `ddl` after `statement`, with names under a search path; the same text if the
    statement changes nothing."""
    text, *more = split(statement)
    if more:
        raise ProgrammingError("These are several statements.\n  Run them one at a time.")
    asked, names = _read(text), _names(ddl, path)
    match asked.verb, asked.what:
        case "create", "schema":
            return _created(ddl, asked, asked.parts[-1], names, text)
        case "create", "view" if asked.replaces:
            return _replaced(ddl, asked, names, text)
        case "create", _ if asked.replaces:
            name = ".".join(map(quote, asked.parts))
            raise NotSupportedError(
                f"CREATE OR REPLACE {asked.what.upper()} is not supported.\n"
                f"  Send DROP {asked.what.upper()} IF EXISTS {name} before."
            )
        case "create", "table" if part := _part_of(asked):
            raise NotSupportedError(
                f"{part} is not supported: a relation has its own columns and rows.\n"
                "  Declare a table with all columns, or insert the rows into the whole table."
            )
        case "create", "table" | "index" | "view" | "materialized view" | "sequence" | "domain":
            return _created(ddl, asked, _new_name(asked, names), names, text)
        case "create", "type" if _is_enumeration(asked):
            return _created(ddl, asked, _new_name(asked, names), names, text)
        case "drop", "table" | "index" | "view" | "materialized view":
            return _dropped(ddl, asked, names)
    if asked.what in _TEMPORARY:
        raise NotSupportedError(
            "There are no temporary tables and views.\n"
            "  Write WITH in the query, or create a table and drop it at the end."
        )
    cure = _INSTEAD.get(asked.what, "Change the schema's file and run: hornbeam schema apply")
    raise NotSupportedError(
        f"{asked.verb.upper()} {asked.what.upper()} is not a statement of Hornbeam.\n  {cure}"
    )


_TEMPORARY = {"temp", "temporary", "local", "global"}
_KEYS = "Give roles to API keys: hornbeam keys."
_IN_APPLICATION = "Write it into the query, or into the application."
_IN_TRANSACTION = "Send the other write in the same transaction, or read the feed of changes."
_INSTEAD = {
    "aggregate": _IN_APPLICATION,
    "database": "Connect to another folder or server, or write CREATE SCHEMA.",
    "extension": "Leave it out: docs/sql.md lists the functions that there are.",
    "function": _IN_APPLICATION,
    "group": _KEYS,
    "macro": _IN_APPLICATION,
    "procedure": _IN_APPLICATION,
    "role": _KEYS,
    "rule": _IN_TRANSACTION,
    "trigger": _IN_TRANSACTION,
    "type": "Only AS ENUM is. Give a column a CHECK, or JSONB, in place of a type.",
    "user": _KEYS,
}
"""The cures for kinds of objects that no schema has."""


def _names(ddl: str, path: Sequence[str] | None) -> Names:
    """The names that a schema declares."""
    known = set(map(_kind_and_name, split(ddl)))
    spaces = {name for what, name in known if what == "schema"}
    return Names(spaces, known, (PUBLIC,) if path is None else path)


def _tables(ddl: str) -> set[str]:
    return {name for what, name in map(_kind_and_name, split(ddl)) if what == "table"}


def _new_name(asked: _Statement, names: Names) -> str:
    """The full name of what a CREATE makes. An index is in the schema of its table."""
    if not asked.on:
        return names.new(asked.parts)
    space, _ = parted(names.old("table", asked.on), names.spaces)
    return joined(space, asked.parts[-1])


def _created(ddl: str, asked: _Statement, name: str, names: Names, text: str) -> str:
    if (asked.what, name) not in names.known and (asked.what, name) != ("schema", PUBLIC):
        return f"{ddl}{_under(names, text)};\n"
    if asked.guarded:
        return ddl
    raise ProgrammingError(f"The {asked.what} {quote(name)} exists already.")


def _under(names: Names, text: str) -> str:
    """The statement under the search path, which the schema's reader knows."""
    return text if names.path == (PUBLIC,) else f"{set_path(names.path)};\n{text}"


def _part_of(asked: _Statement) -> str:
    """The clause by which a table would have the columns or rows of another one; "" without one."""
    behind = asked.found[read_name(asked.found, 0)[1] :]
    words = [token.text.lower() for token in behind if not token.depth]
    if words[:2] == ["partition", "of"]:
        return "PARTITION OF"
    return "INHERITS" if "inherits" in words else ""


def _is_enumeration(asked: _Statement) -> bool:
    behind = asked.found[read_name(asked.found, 0)[1] :]
    return [token.text.lower() for token in behind[:2]] == ["as", "enum"]


def _replaced(ddl: str, asked: _Statement, names: Names, text: str) -> str:
    """The schema with CREATE OR REPLACE VIEW in the place of the view, or at the end."""
    key = ("view", names.new(asked.parts))
    if key not in names.known:
        return f"{ddl}{_under(names, text)};\n"
    restored = "" if names.path == (PUBLIC,) else f";\n{set_path([PUBLIC])}"
    new = _under(names, text) + restored
    changed = [new if _kind_and_name(s) == key else s for s in split(ddl)]
    return "".join(f"{s};\n" for s in changed)


def _dropped(ddl: str, asked: _Statement, names: Names) -> str:
    """The schema without the dropped objects. DROP TABLE also drops the tables' indexes."""
    declared, listed = split(ddl), [names.old(asked.what, parts) for parts in _listed(asked)]
    missing = [name for name in listed if (asked.what, name) not in names.known]
    if missing and not asked.guarded:
        raise _unknown(asked.what, missing[0])
    goes = {(asked.what, name) for name in listed}
    kept = [s for s in declared if not goes & {_kind_and_name(s), ("table", _indexed(s))}]
    return ddl if kept == declared else "".join(f"{s};\n" for s in kept)


def _listed(asked: _Statement) -> list[list[str]]:
    """The names that a DROP lists. Raises NotSupportedError for other tokens, such as CASCADE."""
    listed, at = [], 0
    while at < len(asked.found):
        parts, at = read_name(asked.found, at)
        listed.append(parts)
        if at < len(asked.found) and asked.found[at].text != ",":
            raise NotSupportedError(
                f"{asked.found[at].text} is not supported after DROP {asked.what.upper()}"
                f" {'.'.join(asked.parts)}.\n  Give only names, separated by commas."
            )
        at += 1
    if asked.found[-1].text == ",":
        raise _cut_short()
    return listed


def _read(statement: str) -> _Statement:
    """Parse a statement. Raises ProgrammingError when it ends before it names an object."""
    found = list(tokens(statement))
    at = _after_noise(found, 1, _BEFORE_KIND)
    what = found[at].text.lower() if at < len(found) else ""
    if what == "materialized":
        at, what = at + 1, MATERIALIZED
    name = _after_noise(found, at + 1)
    if name >= len(found):
        raise _cut_short()
    words = [token.text.lower() for token in found[:name]]
    return _Statement(words[0], what, "exists" in words[at:], found[name:], "replace" in words[:at])


def _after_noise(found: Sequence[Token], place: int, noise: set[str] = _NOISE) -> int:
    while place < len(found) and found[place].text.lower() in noise:
        place += 1
    return place


def _kind_and_name(statement: str) -> tuple[str, str]:
    """The kind and the full name of a declaration of the schema in force."""
    declared = _read(statement)
    parts = [*declared.on[:-1], declared.parts[-1]] if declared.on else declared.parts
    return declared.what, _full(parts)


def _indexed(statement: str) -> str:
    """The table of a CREATE INDEX; "" for another statement."""
    return _full(_read(statement).on)


def _full(parts: Sequence[str]) -> str:
    return joined(*parts[-2:]) if len(parts) > 1 else "".join(parts)


def _unknown(what: str, name: str) -> ProgrammingError:
    return ProgrammingError(f"The {what} {quote(name)} does not exist.")


def _cut_short() -> ProgrammingError:
    return ProgrammingError(
        "The statement ends before it says what to change.\n"
        "  Write CREATE, DROP or ALTER, then TABLE, INDEX, VIEW, SEQUENCE or SCHEMA, and a name;"
        " after ADD a column."
    )
