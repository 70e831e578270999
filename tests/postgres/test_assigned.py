"""Law: a text has the same value, or is refused, by whatever road it comes to a column: as a
literal, as a parameter, in CSV, in JSON lines, or through Spark. The value is PostgreSQL's, except
where a difference is declared with a reason."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from hornbeam.cli.loadfiles import Columns, batches_of
from hornbeam_server.pipeline.load import files
from hornbeam_server.schema.assignment import text_of
from hornbeam_server.schema.sqltext import quoted
from tests.api.api_world import World, world
from tests.postgres.assigned import DIFFERENCES, TEXTS, cases, recorded

TABLES = {type_: f"t{number}" for number, type_ in enumerate(TEXTS)}
OF_FILES = {
    ("INTEGER", "20.0"): "20",
    ("INTEGER", "20.00"): "20",
    ("SMALLINT", "20.0"): "20",
    ("BIGINT", "1.0"): "1",
}
"""Files may have zeros behind a whole number (docs/sql.md, Assignment)."""
Road = Callable[[World, str, int, str], bool]
"""Sends a text to row `key` of a table; is it taken?"""


def as_literal(shop: World, table: str, key: int, text: str) -> bool:
    return shop.transact(f"INSERT INTO {table} VALUES ({key}, {quoted(text)})").is_success


def as_parameter(shop: World, table: str, key: int, text: str) -> bool:
    return shop.transact(f"INSERT INTO {table} VALUES (?, ?)", key, text).is_success


def csv(key: int, text: str) -> str:
    field = text.replace('"', '""')
    return f'K,C\n{key},"{field}"\n'


def loaded(shop: World, table: str, body: bytes) -> bool:
    headers = {"Content-Type": "text/csv"}
    return shop.client.post(f"/v1/load/{table}", content=body, headers=headers).is_success


def as_csv(shop: World, table: str, key: int, text: str) -> bool:
    return loaded(shop, table, csv(key, text).encode())


def as_json_line(shop: World, table: str, key: int, text: str) -> bool:
    """The client reads the line, and sends it."""
    path = shop.database.settings.data / "t.jsonl"
    path.write_text(json.dumps({"K": key, "C": text}) + "\n")
    columns = Columns(frozenset({"k", "c"}), frozenset())
    ((batch,),) = [list(found) for _, found in [batches_of(path, 1, columns)]]
    return loaded(shop, table, batch.rows.body(0, 1))


ROADS: dict[str, Road] = {
    "literal": as_literal,
    "parameter": as_parameter,
    "CSV": as_csv,
    "JSON lines": as_json_line,
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("assigned")) as opened:
        ddl = ";".join(
            f"CREATE TABLE {table} (k INTEGER PRIMARY KEY, c {type_})"
            for type_, table in TABLES.items()
        )
        assert opened.apply(ddl=ddl, workload="", roots=None).status_code == 200
        yield opened


@pytest.fixture(scope="module")
def found(
    shop: World, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[tuple[str, str], str | None]]:
    """The value of each case by each road; None: it is refused."""
    stored: dict[str, dict[tuple[str, str], str | None]] = {}
    keys = {case: number for number, case in enumerate(cases())}
    for first, (name, road) in enumerate(ROADS.items()):
        taken = {
            case: road(shop, TABLES[case[0]], first * len(keys) + key, case[1])
            for case, key in keys.items()
        }
        texts = {
            (type_, key): text
            for type_, table in TABLES.items()
            for key, text in shop.rows(f"SELECT k, CAST(c AS TEXT) FROM {table}")
        }
        stored[name] = {
            case: texts[case[0], first * len(keys) + key] if taken[case] else None
            for case, key in keys.items()
        }
    folder = tmp_path_factory.mktemp("spark")
    stored["Spark"] = {case: by_spark(shop, folder / "t.csv", *case) for case in keys}
    return stored


def by_spark(shop, path, type_: str, text: str) -> str | None:
    """The text of a value as an executor of Spark reads it from CSV."""
    relation = shop.database.catalog.schema.relation(TABLES[type_])
    path.write_bytes(csv(1, text).encode())
    (split,) = files.splits(files.inspect(str(path), relation))
    now = dt.datetime.now(dt.UTC)
    rows = [row for chunk in files.read(split, relation, now) for row in chunk.rows]
    for row in islice(rows, 1):
        return row[1] if isinstance(row[1], str) else text_of(row[1])
    return None


def test_all_roads_give_the_same_value(found):
    for case in cases():
        values = {name: values[case] for name, values in found.items()}
        if case in OF_FILES:
            assert {values.pop("literal"), values.pop("parameter")} == {None}, case
            assert set(values.values()) == {OF_FILES[case]}, case
        else:
            assert len(set(values.values())) == 1, (case, values)


def test_the_value_is_that_of_postgresql(found):
    answers = recorded()
    assert list(answers) == [*cases()], "Run python -m tests.postgres.ask."
    values = found["literal"]
    differing = {case for case, value in answers.items() if values[case] != value}
    shown = {case: (values[case], answers[case]) for case in differing ^ set(DIFFERENCES)}
    assert not shown, "Mend them, or declare them in DIFFERENCES."
