"""The catalogue queries of clients, over the protocol: as simple queries and as prepared ones."""

import json

import psycopg
import pytest

from tests.catalogue.asked import OIDS, filled, hornbeam_ddl, queries
from tests.pgwire.wire_world import wire_world


@pytest.fixture(scope="module")
def connection(tmp_path_factory):
    with wire_world(tmp_path_factory.mktemp("catalogue")) as world, world.connect() as found:
        found.execute(hornbeam_ddl())
        yield found


def test_prepared_queries_have_the_answers_and_the_types_of_simple_ones(connection):
    oids = dict(connection.execute(OIDS).fetchall())
    wrong = []
    for entry in queries():
        sql = filled(entry["sql"], oids)
        try:
            simple = _answer(connection.execute(sql))
            prepared = _answer(connection.execute(sql, prepare=True))
        except psycopg.Error as error:
            wrong.append((entry["client"], sql, str(error)))
            continue
        recorded = entry.get("hornbeam", entry["postgresql"])
        if simple != prepared or bool(simple[1]) != bool(recorded):
            wrong.append((entry["client"], sql, json.dumps(recorded)[:100]))
    assert wrong == []


def _answer(cursor):
    """The columns with their types, and the rows as texts, in an order of their own."""
    columns = [(column.name, column.type_code) for column in cursor.description]
    result = cursor.pgresult
    rows = [
        tuple(result.get_value(row, column) for column in range(result.nfields))
        for row in range(result.ntuples)
    ]
    return columns, sorted(rows, key=repr)
