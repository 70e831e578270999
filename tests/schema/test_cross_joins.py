"""Stored queries whose joins have no condition: a version that took them stored them."""

from pathlib import Path

import pytest

from hornbeam_server.query.binding.binder import bind
from hornbeam_server.schema.codec import decode_catalog, encode_catalog
from hornbeam_server.schema.cross_joins import with_cross_joins
from hornbeam_server.schema.ddl import load_ddl, render_ddl
from hornbeam_server.schema.errors import SqlError

STORED = (Path(__file__).parent / "fixtures" / "catalog_10_cross_joins.json").read_bytes()
"""A catalog of a version that took a JOIN without ON and USING, with a plain view and a recomputed
one."""


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        ("SELECT 1 FROM a JOIN b", "SELECT 1 FROM a CROSS JOIN b"),
        ("select 1 from a\njoin b", "select 1 from a\nCROSS join b"),
        ("SELECT 1 FROM a JOIN b, c JOIN d ON p", "SELECT 1 FROM a CROSS JOIN b, c JOIN d ON p"),
        ("SELECT 1 FROM a JOIN b ON p JOIN c", "SELECT 1 FROM a JOIN b ON p CROSS JOIN c"),
        ("SELECT 1 FROM a JOIN b JOIN c ON p", "SELECT 1 FROM a CROSS JOIN b JOIN c ON p"),
        (
            "SELECT '😀' FROM a JOIN b UNION SELECT DISTINCT ON (x) x FROM c JOIN d ON p",
            "SELECT '😀' FROM a CROSS JOIN b UNION SELECT DISTINCT ON (x) x FROM c JOIN d ON p",
        ),
        (
            "SELECT 1 FROM a JOIN (SELECT 1 FROM c JOIN d) e ON p",
            "SELECT 1 FROM a JOIN (SELECT 1 FROM c CROSS JOIN d) e ON p",
        ),
    ],
)
def test_a_join_without_a_condition_is_read_as_a_cross_join(stored: str, read: str) -> None:
    assert with_cross_joins(stored) == read
    assert with_cross_joins(read) == read


@pytest.mark.parametrize(
    "stored",
    [
        "SELECT 1 FROM a",
        "SELECT ' a JOIN b', \"join\" FROM a",
        "SELECT 1 FROM a CROSS JOIN b NATURAL JOIN c NATURAL LEFT JOIN d",
        "SELECT 1 FROM a JOIN b JOIN c ON p ON q LEFT JOIN d USING (x)",
        "SELECT 1 FROM a JOIN b CROSS JOIN c ON p",
        "SELECT 'not closed FROM a JOIN b",
    ],
)
def test_other_texts_are_read_as_they_are(stored: str) -> None:
    assert with_cross_joins(stored) == stored


def test_views_of_an_earlier_version_are_readable() -> None:
    catalog = decode_catalog(STORED)
    with pytest.raises(SqlError, match="neither ON nor USING"):
        bind("SELECT x, y FROM a JOIN b", catalog)
    assert bind("SELECT x, y FROM v", catalog).columns
    assert {view.name: view.sql for view in catalog.schema.views} == {
        "v": "SELECT a.x, b.y FROM a CROSS JOIN b",
        "m": "SELECT y, count(*) AS n FROM a CROSS JOIN b GROUP BY y",
    }
    assert decode_catalog(encode_catalog(catalog)) == catalog
    assert load_ddl(render_ddl(catalog.schema)).views == catalog.schema.views
