"""Views over views."""

from dataclasses import replace
from random import Random

import pytest

from hornbeam_server.maintain.deltas.nesting import written_out
from hornbeam_server.maintain.deltas.program import compile_view
from hornbeam_server.schema.errors import UnknownName, Unsupported
from hornbeam_server.schema.model import DeclaredView, Refresh
from tests.maintain.deltas.deltas_world import World, catalog_of

DDL = """
CREATE TABLE a (i INTEGER PRIMARY KEY, j INTEGER, x INTEGER, t TEXT);
CREATE INDEX a_j ON a (j);
CREATE TABLE b (i INTEGER NOT NULL, n INTEGER NOT NULL, x INTEGER, PRIMARY KEY (i, n));
"""
CATALOG = catalog_of(DDL)
VIEWS = {
    "sums": "SELECT i, sum(x) AS s, count(*) AS n FROM b GROUP BY i",
    "joined": "SELECT a.i, a.j, sums.s FROM a LEFT JOIN sums ON sums.i = a.i",
    "best": "SELECT i, s FROM sums WHERE n > 1",
    "by_j": 'SELECT j, sum(s) AS s, count(*) AS n FROM joined AS "sums" GROUP BY j',
    "alone": "SELECT j FROM by_j WHERE NOT EXISTS (SELECT * FROM best WHERE best.i = by_j.j)",
    "both": "SELECT s FROM sums UNION ALL SELECT s FROM by_j",
    # WITH queries with names of relations and views
    "hidden": "WITH b AS (SELECT i, t FROM a), best AS (SELECT i AS k FROM sums) "
    "SELECT b.t, best.k FROM b JOIN best ON best.k = b.i",
    "over_hidden": "WITH sums AS (SELECT t, k FROM hidden) SELECT t, count(*) AS n FROM sums"
    " GROUP BY t",
}


def test_views_over_views_are_maintained():
    """Each step is also compared with DuckDB's answers over the rows of the other views."""
    world = World(CATALOG, VIEWS)
    random = Random(4)
    seen = set()
    for _ in range(8):
        writes = []
        for _ in range(8):
            i, j, x = random.randint(0, 5), random.randint(0, 3), random.choice([None, 1, 2, 5])
            if random.random() < 0.4:
                writes.append(("a", (i, j, x, random.choice("uv"))))
            else:
                writes.append(("b", (i, random.randint(0, 2), x)))
            if random.random() < 0.3:
                relation, row = writes[-1]
                writes[-1] = (relation, row[: 1 if relation == "a" else 2], None)
        world.commit(*writes)
        world.check()
        as_over_views(world)
        seen |= {name for name in VIEWS if world.store.rows[name]}
    world.check_anew()
    assert seen == set(VIEWS), "a view without rows shows little"


def as_over_views(world):
    """Compare each view with its declared SELECT over the stored rows of the views it names."""
    for name, (_, rows) in world.answers(over_views=True).items():
        width = len(world.programs[name].columns)
        stored = [row[:width] for row in world.store.rows[name].values()]
        assert sorted(map(repr, stored)) == sorted(map(repr, rows)), name


def views(**selects):
    return tuple(
        DeclaredView(name, sql[1:].strip(), refresh=Refresh.RECOMPUTE)
        if sql.startswith("*")
        else DeclaredView(name, sql)
        for name, sql in selects.items()
    )


def compiled(declared):
    catalog = replace(CATALOG, schema=replace(CATALOG.schema, views=declared))
    return [compile_view(view, catalog) for view in declared]


def test_relations_of_a_view_include_those_of_its_views():
    *_, last = compiled(views(one="SELECT i FROM b", two="SELECT one.i FROM one JOIN a USING (i)"))
    assert sorted(last.relations) == ["a", "b"]
    *_, last = compiled(
        views(one="* SELECT i FROM b LIMIT 1", b2="* WITH b AS (SELECT i FROM a) SELECT i FROM one")
    )
    assert sorted(last.relations) == ["a", "b"]


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (views(one="SELECT i\nFROM two", two="SELECT i FROM a"), r"two is not declared.*line 2"),
        (views(one="SELECT i FROM one"), "one is not declared before"),
        (views(one="* SELECT i FROM a LIMIT 1", two="SELECT i FROM one"), "one is recomputed"),
    ],
    ids=["later", "itself", "recomputed"],
)
def test_views_that_cannot_be_named_are_refused(declared, words):
    with pytest.raises(Unsupported, match=words) as refused:
        compiled(declared)
    assert refused.value.cure


def test_a_recomputed_view_may_have_any_repeatable_aggregate():
    (view,) = compiled(views(one="* SELECT json_group_object(i, i)::TEXT AS pairs FROM a"))
    assert [column.name for column in view.columns] == ["pairs"]
    with pytest.raises(Unsupported, match="another value each time"):
        compiled(views(one="* SELECT random() AS r FROM a"))


def test_errors_have_places_in_the_views_own_text():
    inner, outer = views(one="SELECT\n\n\n i FROM a", two="SELECT i,\n nothing FROM one")
    with pytest.raises(UnknownName, match=r"nothing is unknown.*line 2, column 2"):
        compiled((inner, outer))
    wrong = DeclaredView("two", "SELECT i FROM one\nORDER BY i")
    with pytest.raises(Unsupported, match=r"ORDER BY.*line 2"):
        compiled((inner, wrong))


def test_a_view_that_names_no_view_is_unchanged():
    (one,) = views(one="SELECT i FROM a")
    assert "WITH" not in written_out(one, (one,)).sql()
