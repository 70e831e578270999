"""Small layouts and a way to run coroutines, for the storage tests."""

from hornbeam_server.schema.catalog import Catalog, Forest, Layout
from hornbeam_server.schema.model import Column, KeyPart, Relation, Schema
from hornbeam_server.schema.types import ColumnType, Kind, array_of
from tests.strategies import SIZE

PLAIN = {kind: ColumnType(kind) for kind in Kind} | {
    Kind.DECIMAL: ColumnType(Kind.DECIMAL, 38, 10),
    Kind.ARRAY: array_of(ColumnType(Kind.TEXT)),
    Kind.ENUM: SIZE,
}


def layout(types, descending=()):
    """A layout whose columns are all in the key, `descending` by position."""
    columns = tuple(Column(f"c{i}", type_) for i, type_ in enumerate(types))
    key = tuple(KeyPart(c.name, i in descending) for i, c in enumerate(columns))
    return Layout("t", "t", columns, key, "t")


def catalog():
    columns = (
        Column("a", ColumnType(Kind.INTEGER), nullable=False),
        Column("b", ColumnType(Kind.INTEGER), nullable=False),
        Column("c", ColumnType(Kind.TEXT)),
    )
    return Catalog(1, Schema((Relation("t", columns, ("a", "b")),)), Forest(("t",)))


async def collect(batches):
    return [item for batch in [batch async for batch in batches] for item in batch]
