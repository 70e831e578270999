"""Laws of selection on random schemas: forests, views as their paths, optimality, budget."""

from itertools import pairwise, product

from hypothesis import given, settings
from hypothesis import strategies as st

from hornbeam_server.viewselect.forest import ForestSearch
from hornbeam_server.viewselect.paper import paper_forest
from hornbeam_server.viewselect.select import keep_budget, keep_paying, select_views
from tests.depth import depth
from tests.strategies import schemas
from tests.viewselect.viewselect_world import World


@st.composite
def worlds(draw, longest=3, max_relations=6):
    """Draw a DAG of relations with joins along its foreign keys, updates and weights."""
    schema = draw(
        schemas(
            min_relations=2, max_relations=max_relations, tree=False, with_indexes=False,
            max_columns=1,
        )
    )  # fmt: skip
    statements = []
    for _ in range(draw(st.integers(1, 5))):
        query = _query(draw, schema, longest)
        if query:
            statements.append(f"-- weight: {draw(st.integers(1, 9))}\n{query}")
    for relation in schema.relations:
        values = [c.name for c in relation.columns if c.name.startswith(f"{relation.name}_v")]
        if values and draw(st.booleans()):
            key = " AND ".join(f"{name} = ?" for name in relation.primary_key)
            weight = draw(st.sampled_from([0.1, 1, 5]))
            update = f"UPDATE {relation.name} SET {values[0]} = ? WHERE {key}"
            statements.append(f"-- weight: {weight}\n{update}")
    rows = {relation.name: draw(st.sampled_from([5, 100, 2000])) for relation in schema.relations}
    return World(schema, ";\n".join(statements), rows)


def _query(draw, schema, longest):
    """Draw a join from one relation up along foreign keys, possibly with a filter."""
    children = [r for r in schema.relations if _edges(r)]
    if not children:
        return None
    path, conditions = [draw(st.sampled_from(children))], []
    while len(path) < longest and _edges(path[-1]) and (len(path) == 1 or draw(st.booleans())):
        edge = draw(st.sampled_from(_edges(path[-1])))
        conditions += [
            f"t{len(path) - 1}.{own} = t{len(path)}.{theirs}"
            for own, theirs in zip(edge.columns, edge.parent_columns, strict=True)
        ]
        path.append(schema.relation(edge.parent))
    filtered = draw(st.integers(-1, len(path) - 1))
    if filtered >= 0:
        column = draw(st.sampled_from(path[filtered].column_names))
        conditions.append(f"t{filtered}.{column} = ?")
    sources = ", ".join(f"{relation.name} t{i}" for i, relation in enumerate(path))
    return f"SELECT * FROM {sources} WHERE {' AND '.join(conditions)}"


def _edges(relation):
    return [key for key in relation.foreign_keys if key.parent != relation.name]


def _roots(draw_data, world):
    return draw_data.draw(st.none() | st.sets(st.sampled_from(world.schema.names), min_size=1))


def check_forest(world, parents, roots):
    """Assert that all edges exist, chains end in a root, and roots have no parent."""
    assert all(edge.child == child for child, edge in parents.items())
    assert all(world.graph.edge[edge.id] == edge for edge in parents.values())
    for relation in world.schema.names:
        chain = [relation]
        while chain[-1] in parents:
            chain.append(parents[chain[-1]].parent)
            assert len(chain) <= len(world.schema.names), "a circle"
        if roots is not None and relation in parents:
            assert chain[-1] in roots
            assert relation not in roots


def check_views(parents, views):
    for view in views:
        for (parent, child), key in zip(pairwise(view.relations), view.keys, strict=True):
            assert parents[child].parent == parent
            assert parents[child].foreign_key.name == key


@given(worlds(), st.data())
@settings(max_examples=depth(20, long=60))
def test_views_of_both_methods_are_paths_of_their_forests(world, data):
    roots = _roots(data, world)
    paper = paper_forest(world.graph, sorted(roots or ()))
    check_forest(world, paper, roots or set(world.graph.sources))
    check_views(paper, select_views(world.workload, {edge.id for edge in paper.values()}))
    search = ForestSearch(world.graph, world.objective, None if roots is None else sorted(roots))
    best = search.best()
    check_forest(world, best, roots)
    check_views(best, search.selection(best).score.views)


@given(worlds(), st.data())
@settings(max_examples=depth(20, long=60))
def test_the_optimal_method_is_never_worse_than_the_paper(world, data):
    roots = _roots(data, world)
    paper = paper_forest(world.graph, sorted(roots or ()))
    views = select_views(world.workload, {edge.id for edge in paper.values()})
    search = ForestSearch(world.graph, world.objective, None if roots is None else sorted(roots))
    best = search.selection(search.best(paper)).score
    assert best.order >= world.objective.score(views).order


@given(worlds(max_relations=5), st.data())
@settings(max_examples=depth(14, long=40))
def test_best_equals_brute_force_over_all_forests(world, data):
    """Brute force tries, for every relation, each edge of the graph (joined or not) and no edge."""
    roots = _roots(data, world)
    search = ForestSearch(world.graph, world.objective, None if roots is None else sorted(roots))
    options = [[*world.graph.into(name), None] for name in world.schema.names]
    best = max(
        keep_paying(
            world.objective,
            select_views(
                world.workload,
                {e.id for e in choice if e is not None and _allowed(e, choice, roots)},
            ),
        ).score.order
        for choice in product(*options)
    )
    assert search.value(search.best()) == best


def _allowed(edge, choice, roots):
    """Whether the chain above an edge ends in a root, and its child is no root."""
    if roots is None:
        return True
    above = {e.child: e.parent for e in choice if e is not None and e.child not in roots}
    at = edge.child
    while at in above:
        at = above[at]
    return at in roots and edge.child not in roots


@given(worlds(longest=2))
@settings(max_examples=depth(20, long=60))
def test_best_edges_are_optimal_when_views_join_two_relations(world):
    """In this additive case, each relation's best edge is optimal without a search."""
    search = ForestSearch(world.graph, world.objective, None)
    alone = search.value(search.best_edges())
    assert alone[0] == max(map(search.value, search.forests()))[0]


@given(worlds(), st.lists(st.floats(0, 5), min_size=2, max_size=4))
@settings(max_examples=depth(14, long=40))
def test_a_larger_budget_keeps_all_views_of_a_smaller_one(world, budgets):
    search = ForestSearch(world.graph, world.objective, None)
    selection = search.selection(search.best())
    limits = [budget * world.objective.base_size for budget in sorted(budgets)]
    scores = [keep_budget(world.objective, selection, limit).score for limit in limits]
    for limit, score in zip(limits, scores, strict=True):
        assert score.size <= limit or not score.views
    for small, large in pairwise(scores):
        assert set(small.views) <= set(large.views)
        assert small.objective <= large.objective + 1e-6
