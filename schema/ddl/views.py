"""CREATE VIEW and CREATE MATERIALIZED VIEW."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from sqlglot import exp

from hornbeam_server.schema.ddl.statement import DIALECT, Statement
from hornbeam_server.schema.drafts import ViewDraft
from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.schema.model import (
    DEFAULT_GROUP,
    DEFAULT_INTERVAL_S,
    LIVE_GROUP,
    LIVE_INTERVAL_S,
    SHORTEST_INTERVAL_S,
    DeclaredView,
    Refresh,
)

_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_INTERVAL = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|h)\s*")


def read_view(statement: Statement, tree: exp.Create) -> ViewDraft:
    cure = "Write CREATE MATERIALIZED VIEW name WITH (refresh = 'deferred', …) AS SELECT …"
    statement.only(tree, {"this", "kind", "expression", "exists", "properties"}, cure)
    if isinstance(tree.this, exp.Schema):
        statement.refuse(
            "A list of columns", statement.offset(tree.this), "Name them in the SELECT."
        )
    name = statement.table(tree.this)
    options = dict(_options(statement, tree, cure)) or {"refresh": Refresh.IMMEDIATE.value}
    if options.get("refresh") == "sync":
        options["refresh"] = Refresh.IMMEDIATE.value
    if options.get("refresh") not in set(Refresh):
        raise name.place.error(
            f"View {name.text} does not say how it is maintained.",
            cure="Say WITH (refresh = 'immediate') for an aggregate that transactions maintain,"
            " 'live' for a view that the nodes maintain, 'deferred' for a view that batches"
            " maintain, or 'recompute' for any other SELECT.",
            name=name.text,
        )
    refresh = Refresh(options["refresh"])
    if refresh is Refresh.IMMEDIATE and len(options) > 1:
        raise name.place.error(
            f"View {name.text} is immediate: transactions maintain it, so it has no interval and no"
            " group.",
            cure="Leave both options out, or say refresh = 'deferred'.",
            name=name.text,
        )
    live = refresh is Refresh.LIVE
    try:
        interval_s = _interval_s(options.get("interval"), live=live)
    except ValueError as error:
        raise name.place.error(
            f"View {name.text}: {error}.",
            cure="Write '5 s', '100 ms', '1 min' or '2 h'.",
            name=name.text,
        ) from None
    group = options.get("group", LIVE_GROUP if live else DEFAULT_GROUP)
    view = DeclaredView(name.text, statement.query(tree.expression), interval_s, group, refresh)
    return ViewDraft(name, view)


def _interval_s(text: str | None, *, live: bool) -> float:
    """The seconds between two batches. Raises ValueError."""
    if text is None:
        return LIVE_INTERVAL_S if live else DEFAULT_INTERVAL_S
    interval_s = _seconds(text)
    if live and interval_s < SHORTEST_INTERVAL_S:
        raise ValueError(f"{text!r} is shorter than the shortest interval, '50 ms'")
    return interval_s


_BOUND = re.compile(
    r"\b(?:lower|upper|isempty)\s*\(\s*(?:[\w\"]+\s*\.\s*)*\"?(\w+)\"?\s*\)", re.IGNORECASE
)
"""The bound of a range, or the letters of a text."""


def takes_bounds(view: DeclaredView, ranges: Collection[str]) -> bool:
    """Does a view take a bound of one of the columns `ranges`, which are kept as text?"""
    return any(name in ranges for name in _BOUND.findall(view.sql))


def read_plain_view(statement: Statement, tree: exp.Create) -> ViewDraft:
    cure = "Write CREATE [OR REPLACE] VIEW name [(columns)] AS SELECT …"
    statement.only(tree, {"this", "kind", "expression", "replace"}, cure)
    columns = tree.this.expressions if isinstance(tree.this, exp.Schema) else []
    name = statement.table(tree.this.this if isinstance(tree.this, exp.Schema) else tree.this)
    sql = statement.query(tree.expression)
    if columns:
        listed = ", ".join(identifier(each.text) for each in statement.names(columns))
        sql = f"SELECT * FROM (\n{sql}\n) AS {identifier(f'{name.text}_select')} ({listed})"
    return ViewDraft(name, DeclaredView(name.text, sql, refresh=Refresh.PLAIN))


def _options(statement: Statement, tree: exp.Create, cure: str) -> Iterator[tuple[str, str]]:
    """The names and values of the options in WITH (…). Refuses unknown and repeated options."""
    seen = set()
    properties = tree.args.get("properties")
    for item in properties.expressions if properties else ():
        if isinstance(item, exp.MaterializedProperty):
            continue
        name = item.name.lower() if isinstance(item, exp.Property) else ""
        if name not in {"refresh", "interval", "group"} or name in seen:
            what = item.sql(DIALECT)
            statement.refuse(what, statement.keyword("WITH", statement.start), cure)
        seen.add(name)
        yield name, item.args["value"].name


def _seconds(text: str) -> float:
    """The seconds of '5 s', '100 ms', '1 min' or '2 h'. Raises ValueError."""
    found = _INTERVAL.fullmatch(text)
    if found is None or not float(found[1]):
        raise ValueError(f"{text!r} is no interval")
    return float(found[1]) * _UNITS[found[2]]
