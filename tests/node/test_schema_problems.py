"""The check of a schema's expressions while the schema changes."""

from __future__ import annotations

import pytest

from hornbeam_server.node import schema_problems
from hornbeam_server.node.schema_problems import checked
from hornbeam_server.query.expressions.declared import compile_check
from hornbeam_server.schema.ddl.load import read_file
from hornbeam_server.schema.model import Check, Relation

TABLE = "CREATE TABLE {} (a INTEGER PRIMARY KEY, CHECK (a {} 0));"


def test_a_change_compiles_only_the_expressions_of_new_relations(monkeypatch: pytest.MonkeyPatch):
    kept, added = TABLE.format("kept_as_it_is", ">"), TABLE.format("only_added", ">")
    checked(read_file(kept))
    compiled: list[str] = []

    def noted(check: Check, relation: Relation) -> object:
        compiled.append(relation.name)
        return compile_check(check, relation)

    monkeypatch.setattr(schema_problems, "compile_check", noted)
    reading = checked(read_file(kept + added))
    assert compiled == ["only_added"]
    assert [len(relation.checks) for relation in reading.schema.relations] == [1, 1]


def test_an_invalid_expression_is_a_problem_each_time():
    wrong = TABLE.format("wrong_check", "||")
    for _ in range(2):
        reading = checked(read_file(TABLE.format("kept_beside_it", ">") + wrong))
        assert len(reading.problems.found()) == 1
        assert {r.name: len(r.checks) for r in reading.schema.relations} == {
            "kept_beside_it": 1,
            "wrong_check": 0,
        }
