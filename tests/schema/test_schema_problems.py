"""All problems of a file are reported at once, each at its place, and none twice."""

import pytest

from hornbeam_server.schema.ddl import load_ddl, read_file, render_ddl
from hornbeam_server.schema.ddl.suggest import suggestion
from hornbeam_server.schema.errors import SchemaError
from hornbeam_server.schema.types import ColumnType, Kind

FILE = """
CREATE TABLE shop (
  id INTEGER PRIMARY KEY, opens NAME, kind MOOD DEFAULT 'good',
  size INT CHECK (size > 0) COLLATE "X", size INT
);
CREATE TABLE visit (s_id INTEGER REFERENCES shop ON UPDATE CASCADE, at TIMESTAMP);
CREATE TABLE broken (id INTEGER PRIMARY KEY KEY);
ALTER TABLE broken ADD CONSTRAINT b UNIQUE (x);
CREATE TABLE late (
  id INT PRIMARY KEY, s_id INT REFERENCES nowhere, v INT REFERENCES visit,
  b INT REFERENCES broken, o INT, UNIQUE (q));
CREATE INDEX late_by_opens ON shop (opens, colour);
CREATE MATERIALIZED VIEW v WITH (refresh = 'x') AS SELECT 1;
\\i more.sql
"""


def found(text: str) -> list[tuple[int, int, str]]:
    return [(*problem.place, problem.error.message) for problem in read_file(text).problems.found()]


def test_all_problems_are_reported_in_the_order_of_the_file() -> None:
    assert found(FILE) == [
        (3, 33, "Type NAME is not supported."),
        (3, 44, "Type MOOD is not supported."),
        (4, 37, "COLLATE X is not supported here."),
        (4, 42, "Column shop.size is declared twice."),
        (7, 45, "Syntax error at KEY: expecting )."),
        (
            10,
            43,
            "A foreign key of late references nowhere, which is not a relation of this schema.",
        ),
        (10, 69, "A foreign key of late references visit, which has no primary key."),
        (11, 43, "Index late_q_key names column q, which late does not have."),
        (13, 26, "View v does not say how it is maintained."),
    ]


def test_the_error_carries_all_problems() -> None:
    with pytest.raises(SchemaError, match="Type NAME") as caught:
        load_ddl(FILE, "shop.sql")
    problems = caught.value.details["problems"]
    assert len(problems) == 10
    assert problems[-1]["detail"] == "\\i more.sql reads another file."
    assert problems[-2] == {
        "code": "schema-invalid",
        "detail": "View v does not say how it is maintained.",
        "cure": problems[-2]["cure"],
        "file": "shop.sql",
        "line": 13,
        "column": 26,
    }
    assert all(problem["cure"] for problem in problems)


def test_an_element_that_names_a_broken_one_is_no_problem_of_its_own() -> None:
    text = (
        "CREATE TABLE a (id MOOD PRIMARY KEY);\n"
        "CREATE TABLE b (id INT PRIMARY KEY, a_id INT REFERENCES a);\n"
        "CREATE INDEX i ON a (id);"
    )
    assert found(text) == [(1, 20, "Type MOOD is not supported.")]


def test_the_rest_of_a_file_with_problems_is_a_schema() -> None:
    schema = read_file(FILE).schema
    assert load_ddl(
        render_ddl(read_file("CREATE TABLE a (i INT PRIMARY KEY, CHECK (i > 1))").schema)
    )
    assert [column.name for column in schema.relation("shop").columns] == [
        *("id", "opens", "kind", "size")
    ]


def test_text_that_cannot_be_split_is_one_problem_beside_those_before_it() -> None:
    assert found("CREATE TABLE t (a MOOD PRIMARY KEY);\nCREATE TABLE u (a TEXT DEFAULT 'x)") == [
        (1, 19, "Type MOOD is not supported."),
        (2, 32, 'Unreadable text: "\'x)" is not closed.'),
    ]


def test_a_suggestion_can_be_applied_and_comments_each_change() -> None:
    reading = read_file(FILE, "shop.sql")
    text = suggestion(reading, "shop.sql")
    schema = load_ddl(text)
    assert schema.relation("shop").column("opens").type == ColumnType(Kind.TEXT)
    assert schema.relation("visit").declared_key == ()
    assert "  -- Line 3: Type NAME is not supported. Use VARCHAR(63)" in text
    assert "-- Line 7: Syntax error at KEY" in text.split("CREATE TABLE")[0]
    assert all(f"-- Line {problem.place[0]}: " in text for problem in reading.problems.found())


@pytest.mark.parametrize("name", ["\0", "b"])
def test_a_key_of_a_column_with_a_wrong_name_is_one_problem(name):
    """The name is none that a column can have, or that of another column."""
    ddl = f'CREATE TABLE t (b INTEGER, "{name}" INTEGER PRIMARY KEY); CREATE TABLE u (a INTEGER)'
    with pytest.raises(SchemaError) as error:
        load_ddl(ddl)
    assert len(error.value.details.get("problems", [error.value])) == 1


def test_a_text_that_is_read_again_has_no_problems_of_an_earlier_reading():
    text = "CREATE TABLE read_twice (id INTEGER PRIMARY KEY)"
    first = read_file(text)
    with first.problems.collect():
        raise SchemaError("A later check has failed.", cure="Correct it.")
    again = read_file(text)
    assert again.schema is first.schema
    assert not again.problems.found()
    wrong = "CREATE TABLE read_twice (id NUMERICS PRIMARY KEY)"
    found = [[str(each.error) for each in read_file(wrong).problems.found()] for _ in range(2)]
    assert found[0] == found[1] != []
