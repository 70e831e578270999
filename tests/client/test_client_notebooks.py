"""Results in notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

import hornbeam
from hornbeam.notebooks import MOST_CHARACTERS, MOST_ROWS, table_html


@pytest.fixture
def db(tmp_path: Path) -> Iterator[hornbeam.Connection]:
    with hornbeam.connect(f"hornbeam:///{tmp_path / 'db'}", autocommit=True) as opened:
        opened.cursor().execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)")
        opened.cursor().execute("INSERT INTO item VALUES (1, '<b>pen</b>'), (2, NULL)")
        yield opened


def test_a_result_is_a_table_and_stays_to_be_fetched(db: hornbeam.Connection) -> None:
    cursor = db.cursor().execute("SELECT id, name FROM item ORDER BY id")
    shown = cursor._repr_html_()
    assert shown is not None
    assert re.findall("<th title[^>]*>(.*?)</th>", shown) == ["id", "name"]
    cells = re.findall("<td[^>]*>(.*?)</td>", shown)
    assert cells == ["1", "&lt;b&gt;pen&lt;/b&gt;", "2", "<em>NULL</em>"]
    assert "<p>2 rows from item</p>" in shown
    assert cursor.fetchall() == [(1, "<b>pen</b>"), (2, None)]
    assert cursor._repr_html_() == shown


def test_a_write_shows_its_tag_and_a_plan_its_lines(db: hornbeam.Connection) -> None:
    cursor = db.cursor()
    assert cursor._repr_html_() is None
    cursor.execute("DELETE FROM item WHERE id = 2")
    assert cursor._repr_html_() == "<pre>DELETE 1</pre>"
    cursor.execute("INSERT INTO item VALUES (3, 'ink') RETURNING id")
    assert "<p>1 row</p>" in (cursor._repr_html_() or "")
    cursor.execute("EXPLAIN SELECT name FROM item WHERE id = 1")
    lines = "\n".join(line for (line,) in cursor.fetchall())
    assert (cursor._repr_html_() or "").startswith("<pre>")
    assert "item" in lines
    cursor.close()
    assert cursor._repr_html_() is None


def test_many_rows_and_long_values_are_cut() -> None:
    rows = [(number, "x" * 1_000, Decimal("1.50"), b"\1") for number in range(1_500)]
    columns = [("n", "INTEGER"), ("t", "TEXT"), ("d", "DECIMAL(9,2)"), ("b", "BYTEA")]
    shown = table_html(columns, rows)
    assert shown.count("<tr>") == MOST_ROWS + 1
    assert f"<p>the first {MOST_ROWS} of 1,500 rows</p>" in shown
    assert f"<td>{'x' * MOST_CHARACTERS}…</td>" in shown
    assert '<td style="text-align: right">1.50</td>' in shown
    assert "<td>\\x01</td>" in shown
