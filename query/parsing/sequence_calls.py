"""Calls of nextval, currval, lastval and setval in SQL.

No evaluator knows sequences. Where such a call may stand, a parameter takes its place, whose value
the transaction layer gives (`txlayer/statements/value_lifting.py`, `sequence_queries.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from typing import TypeGuard

from sqlglot import exp

from hornbeam_server.query.dialect.functions import function_name
from hornbeam_server.query.dialect.grammar import NAME
from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.counters import SEQUENCE, Counter
from hornbeam_server.schema.errors import SqlError, UnknownName, Unsupported
from hornbeam_server.schema.identifiers import identifier
from hornbeam_server.schema.model import sequence_of_column
from hornbeam_server.schema.named_columns import unknown_column
from hornbeam_server.schema.namespaces import parted
from hornbeam_server.schema.sequences import named
from hornbeam_server.schema.trees import unlink, written
from hornbeam_server.schema.types import ColumnType, Kind

SEQUENCES = frozenset({"nextval", "currval", "lastval", "setval"})
CALL = "call"
"""Key in the meta of a call: its identity. Copies that a translation makes are the same call."""
NUMBER = ColumnType(Kind.BIGINT)
"""The type of all values of sequences."""
OF_COLUMN = "pg_get_serial_sequence"
_DRAWS = re.compile(r"\bnextval\b", re.IGNORECASE)
_CALLS = re.compile(r"\b(nextval|currval|lastval|setval)\b", re.IGNORECASE)
_CURE = (
    "Write it in VALUES, SET, RETURNING, a DEFAULT, or the list of a SELECT: take the numbers of a"
    " query in a subquery in FROM, and give a write its number as a parameter."
)


@dataclass(frozen=True, slots=True)
class SequenceCall:
    """A call of `function`: nextval, currval or lastval. `counter` is the sequence; None for
    lastval."""

    function: str
    counter: Counter | None


def is_sequence_call(node: exp.Expr) -> TypeGuard[exp.Anonymous]:
    """Whether the node is a call of a function of sequences."""
    return isinstance(node, exp.Anonymous) and node.name.lower() in SEQUENCES


def mark_call(node: exp.Expr) -> None:
    """Give a parsed call its identity."""
    if is_sequence_call(node):
        node.meta[CALL] = id(node)


def calls_in(node: exp.Expr) -> list[exp.Anonymous]:
    """The calls in an expression, in the order of the text, without those in its queries."""
    found = node.walk(bfs=False, prune=lambda each: isinstance(each, exp.Query))
    return [each for each in found if is_sequence_call(each)]


def names_sequences(sql: str) -> bool:
    """May the statement call a function of sequences? False only if it does not."""
    return _CALLS.search(sql) is not None


def draws(sql: str) -> bool:
    """May the statement take numbers from a sequence? False only if it does not."""
    return _DRAWS.search(sql) is not None


def owners_of_draws(tree: exp.Expr, catalog: Catalog) -> Iterator[str]:
    """For each call of nextval the relation that owns the sequence, or else the sequence. Raises
    UnknownName."""
    owners = {each.name: each.owner for each in catalog.schema.sequences}
    for node in tree.walk():
        if not is_sequence_call(node) or node.name.lower() != "nextval":
            continue
        counter = read_call(node, catalog).counter
        if counter is not None:
            owner = owners.get(counter.column) if counter.relation == SEQUENCE else None
            yield owner[0] if owner is not None else counter.relation or counter.column


def without_bare_queries(tree: exp.Expr) -> None:
    """Replace each `(SELECT nextval('s'))` in VALUES by the expression: it has the same value."""
    for values in list(tree.find_all(exp.Values)):
        for query in [node for node in values.walk() if isinstance(node, exp.Subquery)]:
            select = query.this
            bare = isinstance(select, exp.Select) and _given(select) == ["expressions"]
            if bare and _given(query) == ["this"] and len(select.expressions) == 1:
                value = select.expressions[0].unalias()
                if calls_in(value):
                    query.replace(exp.Paren(this=value.copy()))
                    unlink(query)


def without_outer_lists(tree: exp.Expr) -> exp.Expr:
    """The statement in which a SELECT that only lists columns of a subquery with calls is the
    subquery itself, so that the calls are in the list of the outermost SELECT: as in
    `SELECT id, x FROM (SELECT nextval('s') AS id, x FROM item ORDER BY x) AS q`."""
    outer = tree.expression if isinstance(tree, exp.Insert) else tree
    inner = _listed(outer)
    if inner is None or outer is tree:
        return inner or tree
    tree.set("expression", inner)
    return tree


def _listed(outer: exp.Expr) -> exp.Select | None:
    """The subquery whose columns `outer` lists, with these columns; None if `outer` does more than
    that, or if a call would be made more or less often."""
    if not isinstance(outer, exp.Select):
        return None
    source = outer.args["from_"].this if outer.args.get("from_") else None
    if set(_given(outer)) != {"expressions", "from_"} or not isinstance(source, exp.Subquery):
        return None
    inner = _listed(source.this) or source.this
    if not isinstance(inner, exp.Select) or not set(_given(source)) <= {"this", "alias"}:
        return None
    if not any(map(calls_in, inner.expressions)) or source.alias_column_names:
        return None
    names = [_name(item) for item in inner.expressions]
    places: list[int] = []
    for item in outer.expressions:
        if isinstance(item, exp.Star) and _given(item) == []:
            places += range(len(names))
        elif _is_column(item, source.alias) and names.count(item.name) == 1:
            places.append(names.index(item.name))
        else:
            return None
    called = [place for place, item in enumerate(inner.expressions) if calls_in(item)]
    if "" in names or any(places.count(place) != 1 for place in called):
        return None
    left = {name for place, name in enumerate(names) if place not in places}
    if places != list(range(len(names))) and any(_is_ordered(n, left) for n in inner.walk()):
        return None
    items = [inner.expressions[place].copy() for place in places]
    found = inner.copy()
    found.set("expressions", items)
    return found


def _name(item: exp.Expr) -> str:
    """The name of an output column; "" if it follows from more than its own words."""
    if item.is_star:
        return ""
    return function_name(item) if is_sequence_call(item) else str(item.output_name)


def _is_column(item: exp.Expr, alias: str) -> bool:
    if not isinstance(item, exp.Column) or item.is_star:
        return False
    return item.table in {"", alias}


def _is_ordered(node: exp.Expr, names: Set[str]) -> bool:
    """Does the node order or group by the place of a column, or by an output column of `names`?"""
    key = node.parent.this if isinstance(node.parent, exp.Ordered) else node
    if node.find_ancestor(exp.Order, exp.Group) is None:
        return False
    place = isinstance(key, exp.Literal) and not key.is_string
    return place or (isinstance(node, exp.Column) and node.name in names)


def _given(node: exp.Expr) -> list[str]:
    return [name for name, value in node.args.items() if value]


def refuse_calls(nodes: Iterable[exp.Expr]) -> None:
    """Raises Unsupported for a call that is left where it cannot stand."""
    for each in nodes:
        if is_sequence_call(each):
            raise Unsupported(
                f"{function_name(each)} cannot stand here: {written(each, NAME)}.", cure=_CURE
            )


def read_call(node: exp.Anonymous, catalog: Catalog) -> SequenceCall:
    """The call that `node` is. Raises SqlError, UnknownName, Unsupported."""
    function = function_name(node)
    arguments = node.expressions
    if function == "setval":
        raise Unsupported(
            "setval stands alone: SELECT setval('sequence', number).",
            cure="Send it as a statement of its own, through the client.",
        )
    if len(arguments) != (function != "lastval"):
        raise SqlError(
            f"{function} with {len(arguments)} arguments: {written(node, NAME)}.",
            cure="Write nextval('sequence'), currval('sequence') or lastval().",
        )
    counter = sequence_named(arguments[0], catalog) if arguments else None
    return SequenceCall(function, counter)


def sequence_named(argument: exp.Expr, catalog: Catalog) -> Counter:
    """The counter of the sequence that an argument names. Raises SqlError, UnknownName."""
    argument = argument.unnest()
    while isinstance(argument, exp.Cast):
        argument = argument.this.unnest()
    if isinstance(argument, exp.Anonymous) and argument.name.lower() == OF_COLUMN:
        name = _of_column(argument, catalog) or ""
    elif isinstance(argument, exp.Literal) and argument.is_string:
        name = named(argument.name)
    else:
        raise SqlError(
            f"The name of a sequence is a text: {written(argument, NAME)}.",
            cure="Write nextval('sequence').",
        )
    return counter_named(name, catalog)


def counter_named(name: str, catalog: Catalog) -> Counter:
    """The counter of a sequence. Raises UnknownName."""
    counter = catalog.sequences.get(name)
    if counter is None:
        known = ", ".join(sorted(catalog.sequences))
        raise UnknownName(
            f"There is no sequence {name}.",
            cure=f"There are: {known}." if known else "Declare it: CREATE SEQUENCE.",
            name=name,
        )
    return counter


def put_owned_sequences(tree: exp.Expr, catalog: Catalog) -> None:
    """Replace each pg_get_serial_sequence('relation', 'column') by its value, the name of the
    sequence that the column owns, or NULL. Raises SqlError, UnknownName."""
    for call in list(tree.find_all(exp.Anonymous)):
        if call.name.lower() == OF_COLUMN:
            owned = _of_column(call, catalog)
            value = exp.Null() if owned is None else exp.Literal.string(_spelled(owned, catalog))
            call.replace(exp.cast(value, "TEXT", copy=False))
            unlink(call)


def _spelled(sequence: str, catalog: Catalog) -> str:
    """The name with its schema, as an argument of nextval."""
    return ".".join(map(identifier, parted(sequence, catalog.schema.spaces)))


def _of_column(call: exp.Anonymous, catalog: Catalog) -> str | None:
    """The sequence that a column owns: pg_get_serial_sequence('relation', 'column')."""
    texts = [each.name for each in call.expressions if isinstance(each, exp.Literal)]
    if len(texts) != 2:
        raise SqlError(
            f"{OF_COLUMN} takes a relation and a column as texts.",
            cure=f"Write {OF_COLUMN}('relation', 'column').",
        )
    name, column = named(texts[0]), texts[1]
    if name not in catalog.schema:
        raise UnknownName(
            f"Relation {name} is unknown.",
            cure=f"Write {OF_COLUMN}('relation', 'column').",
            name=name,
        )
    relation = catalog.schema.relation(name)
    if column not in relation.positions:
        raise unknown_column(relation, column)
    for sequence in catalog.schema.sequences:
        if sequence.owner == (name, column):
            return sequence.name
    own = sequence_of_column(name, column)
    return own if own in catalog.sequences else None


def sequence_in_default(call: exp.Anonymous) -> str | None:
    """The sequence of a call nextval('…') in a default; None for another call."""
    if function_name(call) != "nextval" or len(call.expressions) != 1:
        return None
    argument = call.expressions[0]
    while isinstance(argument, exp.Cast | exp.Paren):
        argument = argument.this
    literal = isinstance(argument, exp.Literal) and argument.is_string
    return named(argument.name) if literal else None
