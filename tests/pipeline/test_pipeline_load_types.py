"""Spark loads relations with all that a schema of PostgreSQL has, and builds their views: with the
same rows, rejects and views as transactions."""

import json

import pytest
from typer.testing import CliRunner

from hornbeam.cli import app
from hornbeam_server.pipeline.build import driver as building
from tests.api.api_world import world
from tests.pipeline.test_pipeline_load import url_of

TABLES = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN price AS DECIMAL(8,2) CHECK (VALUE >= 0);
CREATE TABLE maker (m_id INT PRIMARY KEY, m_name VARCHAR(20) NOT NULL, m_mood mood DEFAULT 'ok',
  m_left DATE, m_tags JSONB CHECK (m_tags IS NULL OR jsonb_typeof(m_tags) = 'object'));
CREATE UNIQUE INDEX maker_name ON maker (m_name) WHERE m_left IS NULL;
CREATE TABLE item (
  i_id INT PRIMARY KEY, i_maker INT REFERENCES maker, i_price price NOT NULL, i_tax DECIMAL(4,2),
  i_total DECIMAL(10,2) GENERATED ALWAYS AS (i_price * (1 + coalesce(i_tax, 0))) STORED,
  i_opens TIME, i_lasts INTERVAL, i_at TIMESTAMPTZ(0), i_small SMALLINT, i_data JSONB,
  i_code TEXT GENERATED ALWAYS AS (upper(i_data ->> 'code')) STORED,
  CONSTRAINT positive CHECK (i_lasts IS NULL OR i_lasts > INTERVAL '0'));
CREATE UNIQUE INDEX item_code ON item (i_code) WHERE i_small > 0;
CREATE INDEX item_open ON item (i_opens DESC NULLS LAST) INCLUDE (i_total) WHERE i_total > 10;
"""
VIEW = """
CREATE MATERIALIZED VIEW of_maker AS SELECT m_mood, count(*) AS n, sum(i_total) AS total,
  max(i_opens) AS latest, count(i_data) AS data FROM item JOIN maker ON m_id = i_maker
  GROUP BY m_mood;
"""
WORKLOAD = """
-- name: items
SELECT m_name, m_tags, i_id, i_lasts, i_total FROM maker, item WHERE i_maker = m_id AND m_name = ?;
-- name: opened
SELECT i_id, i_total FROM item WHERE i_total > 10 AND i_opens > ?;
"""
MAKERS = r"""m_id,m_name,m_mood,m_left,m_tags
1,Ann,happy,,"{""b"": 1.50, ""a"": [1, 2]}"
2,Bob,,2020-01-31,
3,Bob,sad,,"{}"
4,Bob,sad,,
5,Eve,angry,,
6,Fay,ok,,"[1]"
7,Gus,ok,,"{"
8,"a very long name of a maker",ok,,
20.0,Hal,ok,2021-01-31,
"""
ITEMS = r"""i_id,i_maker,i_price,i_tax,i_opens,i_lasts,i_at,i_small,i_data
1,1,10.00,0.20,08:30,1 mon 2 days,2026-01-31 10:00:00.6+02,1,"{""code"": ""x1""}"
2,1,9.995,,23:59:59.999999,PT36H,2026-01-31T10:00:00Z,1,"{""code"": ""X1""}"
3,3,1,,,,,0,"{""code"": ""x1""}"
4,2,-1,,,,,,
5,2,1,,25:00,,,,
6,2,1,,,-1 day,,,
7,20,100000000,,,,,,
8,20,100,,,a while,,,
9,20,100,,,,yesterday,,
10,20,100,0.07,00:00:00.0000005,00:00:00.000001,,40000,
11,20,100,0.07,07:15 ,@ 1 year 2 mons,2026-02-28,-32768,"[{""code"": 1}, null]"
12,4,1,,,,,,
13,,50,,,,,,"{""code"":""\u00e9"",""code"":""last""}"
14,1,7,0.5,,,,2,null
"""


def loaded(folder, *, by_spark):
    """A world, its rejects, its rows, and the rows of its views."""
    folder.mkdir()
    sources = {"maker": MAKERS, "item": ITEMS}
    for name, text in sources.items():
        (folder / name).with_suffix(".csv").write_text(text, encoding="utf-8")
    rejects = folder / "rejects.jsonl"
    with world(folder) as shop:
        assert shop.apply(ddl=TABLES, workload="", roots=None).status_code == 200
        files = [f"{name}={folder / name}.csv" for name in sources]
        options = ["--spark"] if by_spark else []
        command = ["load", *files, *options, "--url", url_of(shop), "--rejects", str(rejects)]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, (done.output, done.exception)
        assert shop.verify() == 0
        build(shop, by_spark=by_spark)
        rows = {
            name: shop.rows(f"SELECT * FROM {name} ORDER BY 1") for name in (*sources, "of_maker")
        }
        joined = shop.rows(
            "SELECT m_name, m_tags, i_id, i_lasts, i_total FROM maker, item WHERE i_maker = m_id"
            " AND m_name = 'Ann' ORDER BY i_id"
        )
        assert shop.verify() == 0
    listed = map(json.loads, rejects.read_text().splitlines())
    found = sorted((each["relation"], each["place"], each["code"]) for each in listed)
    return found, rows, joined


def build(shop, *, by_spark):
    """Declare views and have them built, by Spark or by the node."""
    plan = {"ddl": TABLES + VIEW, "workload": WORKLOAD, "roots": None}
    plan["plan_id"] = shop.post("/v1/schema/plan", plan).json()["plan_id"]
    body = plan | {"build": "spark" if by_spark else "node"}
    assert shop.post("/v1/schema/apply", body).status_code == 200
    if by_spark:
        assert "of_maker" in building.materialize(url_of(shop), []).names
    shop.run(shop.database.keeper.wait_built())
    assert [view.path for view in shop.database.catalog.views] == [("maker", "item")]


@pytest.mark.usefixtures("spark")
def test_spark_loads_and_builds_what_transactions_do(tmp_path):
    wanted = loaded(tmp_path / "transactions", by_spark=False)
    found = loaded(tmp_path / "spark", by_spark=True)
    assert found == wanted
    rejected, rows, joined = found
    assert len(rejected) == 5 + 9
    assert len(rows["maker"]) == 4
    assert len(joined) == 2
