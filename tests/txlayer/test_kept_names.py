"""Names of columns that views have stored: they stay, also where new views have other names.

The fixture is a catalog that an earlier version wrote, in which `count(*)` is `count_star()`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hornbeam_server.maintain.deltas.program import stored_program
from hornbeam_server.maintain.immediate.projected import compile_transactional, define_any
from hornbeam_server.node.schema_plans import PlanRequest, plan_schema
from hornbeam_server.query.binding.binder import bind
from hornbeam_server.schema.codec import decode_catalog, encode_catalog
from hornbeam_server.schema.render import render_ddl

STORED = (Path(__file__).parents[1] / "schema/fixtures/catalog_10_names.json").read_bytes()
CATALOG = decode_catalog(STORED)
COLUMNS = {
    "plain": ["s_c", "(s_qty + 1)"],
    "totals": ["s_c", "count_star()", "sum(s_qty)", "sum(s_id)"],
    "rows": ["s_id", "(s_qty + 1)"],
    "later": ["s_c", "count_star()", "max(s_qty)"],
    "above": ["s_c", "count_star()", "max(s_qty)", '("count_star()" + 1)'],
}


def shown(catalog):
    """The names of the columns of each view."""
    views = {**catalog.declared_view, **catalog.plain_view}
    return {name: [column.name for column in view.columns] for name, view in views.items()}


def test_views_of_an_older_catalog_keep_the_names_of_their_columns():
    assert encode_catalog(CATALOG) == STORED
    for name, columns in COLUMNS.items():
        listed = ", ".join(f'"{column}"'.replace('""', '"') for column in columns[:-1])
        bound = bind(f"SELECT *, {listed} FROM {name}", CATALOG)
        assert [column.name for column in bound.columns] == columns + columns[:-1]
    for view in CATALOG.transactional_view.values():
        assert define_any(view.declared, CATALOG).view == view
        assert compile_transactional(view, CATALOG)
    for view in CATALOG.deferred:
        program = stored_program(view, CATALOG)
        assert program is not None
        assert [column.name for column in program.columns] == COLUMNS[view.name]


def test_a_schema_that_declares_them_again_changes_nothing_and_tells_their_names():
    ddl = render_ddl(CATALOG.schema)
    planned = plan_schema(PlanRequest(ddl=ddl), CATALOG)
    assert planned.rebuilt == ()
    assert [*planned.declared()] == []
    assert shown(planned.catalog) == COLUMNS
    notes = [note for note in planned.plan.schema.notes if "keeps its name" in note]
    assert len(notes) == 8
    assert 'view totals: column "count_star()" keeps its name' in notes[1]
    assert 'not have: count; AS "count_star()" in the SELECT says it' in notes[1]


def test_a_name_that_is_written_keeps_the_rows_and_another_one_builds_the_view_again():
    ddl = render_ddl(CATALOG.schema)
    said = ddl.replace(
        "count(*), max(s_qty)", 'count(*) AS "count_star()", max(s_qty) AS "max(s_qty)"'
    )
    planned = plan_schema(PlanRequest(ddl=said), CATALOG)
    assert said != ddl
    assert planned.rebuilt == ()
    new = ddl.replace("s_qty + 1 FROM sale WHERE", "s_qty + 1 AS more FROM sale WHERE")
    planned = plan_schema(PlanRequest(ddl=new), CATALOG)
    assert planned.rebuilt == ("rows",)


def test_new_views_have_the_names_of_postgresql():
    ddl = render_ddl(CATALOG.schema).replace('"count_star()" + 1', "count + 1")
    ddl = ddl.replace("sum(s_qty), sum(s_id)", "sum(s_qty)")
    empty = replace(CATALOG, schema=replace(CATALOG.schema, views=()), deferred=(), immediate=(),
                    projected=(), plain=(), incarnations=(), states=())  # fmt: skip
    planned = plan_schema(PlanRequest(ddl=ddl), empty)
    assert shown(planned.catalog) == {
        "plain": ["s_c", "?column?"],
        "totals": ["s_c", "count", "sum"],
        "rows": ["s_id", "?column?"],
        "later": ["s_c", "count", "max"],
        "above": ["s_c", "count", "max", "?column?"],
    }
