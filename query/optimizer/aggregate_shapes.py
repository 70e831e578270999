"""Views whose SELECT is one aggregate block over inner joins, in a form in which they can be
compared with blocks of statements. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from sqlglot import exp

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.query.dialect.sums import SUMMED, is_exact
from hornbeam_server.query.optimizer.aggregate_blocks import (
    AggregateBlock,
    NotAnswered,
    aggregate_block,
    aggregates,
    is_call,
    text_of,
)
from hornbeam_server.query.optimizer.select_trees import selects_of
from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.errors import HornbeamError
from hornbeam_server.schema.model import Relation, Schema, enumerations_of
from hornbeam_server.schema.trees import unlink
from hornbeam_server.schema.types import ColumnType, Kind
from hornbeam_server.schema.views import DeferredView, ImmediateView

CACHED = 512
"""Maximum number of views whose SELECTs are cached."""
_CUT = {"having": "HAVING", "limit": "LIMIT", "offset": "OFFSET"}


@dataclass(frozen=True)
class AggregateView:
    """A view that may answer blocks. `key` and `types` are of its rows. `outputs` are the
    expressions of its SELECT with the names of the columns that hold them; those in `groups` are
    grouping expressions. `facts` are the relations whose rows it aggregates: no join of the view
    references them."""

    name: str
    key: tuple[str, ...]
    types: dict[str, ColumnType]
    outputs: tuple[tuple[str, exp.Expr], ...]
    groups: frozenset[str]
    facts: frozenset[str]
    block: AggregateBlock
    catalog: Catalog

    @property
    def grouped(self) -> bool:
        return bool(self.block.keys)


def aggregate_view(view: ImmediateView | DeferredView, catalog: Catalog) -> AggregateView:
    """A view in the form in which it is compared. Raises NotAnswered for a SELECT that has none."""
    relations = tuple(catalog.schema.relation(name) for name in view.relations)
    found = _read(view.declared.sql, relations)
    if isinstance(found, str):
        raise NotAnswered(found)
    types = {column.name: column.type for column in view.columns}
    selected = [node.unalias() for node in found.block.select.expressions]
    outputs = zip(types, selected, strict=True)
    usable = tuple((name, node) for name, node in outputs if not _is_earlier(node, types[name]))
    key = tuple(part.column for part in view.key)
    return replace(
        found,
        name=view.name,
        key=key,
        types=types,
        outputs=usable,
        groups=_groups(found.block, usable),
    )


def _is_earlier(node: exp.Expr, type_: ColumnType) -> bool:
    """Has an aggregate the type that it had in earlier versions: a sum of INTEGER DECIMAL, an
    average of exact numbers DOUBLE?"""
    inner = node.unnest()
    inner = inner.this if isinstance(inner, exp.Filter) else inner
    if isinstance(inner, exp.Avg):
        return is_exact(inner) and type_.kind is Kind.DOUBLE
    return inner.meta.get(SUMMED) is Kind.INTEGER and type_.kind is Kind.DECIMAL


def _groups(block: AggregateBlock, outputs: tuple[tuple[str, exp.Expr], ...]) -> frozenset[str]:
    keys = {text_of(key, block, lambda place: place) for key in block.keys}
    return frozenset(
        name
        for name, node in outputs
        if not is_call(node.unnest()) and text_of(node, block, lambda place: place) in keys
    )


@lru_cache(CACHED)
def _read(sql: str, relations: tuple[Relation, ...]) -> AggregateView | str:
    """A SELECT over `relations`, without the names of the view and its columns; the reason if it
    cannot answer blocks."""
    schema = Schema(relations, enumerations=enumerations_of(relations))
    catalog = Catalog(0, schema, Forest(schema.names))
    try:
        bound = bind(sql, catalog)
    except HornbeamError:
        return "its SELECT names another view"
    try:
        select = selects_of(bound.ast).get(0)
        if len(bound.statement.blocks) != 1 or select is not bound.ast or not aggregates(select):
            return "its SELECT is not one block with aggregates"
        cut = next((word for part, word in _CUT.items() if select.args.get(part)), None)
        if cut is not None:
            return f"{cut} leaves out some of its groups"
        block = aggregate_block(0, bound.statement.blocks[0], select, catalog)
    except NotAnswered as reason:
        return str(reason).replace("the block", "its SELECT")
    finally:
        unlink(bound.ast)
    unlink(block.select)
    parents = {join.parent for join in block.block.fk_joins}
    facts = frozenset(s.relation for s in block.block.sources if s.alias not in parents)
    return AggregateView("", (), {}, (), frozenset(), facts, block, catalog)
