"""Stored rows under a new catalog, whose queries are answered here."""

from __future__ import annotations

import pytest

from hornbeam_server.schema.catalog import Catalog, Forest
from hornbeam_server.schema.ddl import load_ddl
from hornbeam_server.schema.errors import NotNullViolation
from hornbeam_server.txlayer.ddl.constraint_validation import check_stored
from tests.virtual_time import in_virtual_time


def catalog(columns: str) -> Catalog:
    return Catalog(1, load_ddl(f"CREATE TABLE t (a INT PRIMARY KEY{columns})"), Forest(("t",)))


@pytest.mark.parametrize("rows", [0, 2])
@in_virtual_time
async def test_a_column_that_is_not_null_is_added_if_there_are_no_rows(rows: int) -> None:
    async def count(_: str) -> int:
        return rows

    change = check_stored(catalog(""), catalog(", b TEXT NOT NULL"), count, count)
    if rows:
        with pytest.raises(NotNullViolation, match=r"t\.b cannot be NOT NULL: 2 stored rows have"):
            await change
    else:
        await change
