"""For any text, loaders either succeed or raise a SchemaError with a place, and nothing else."""

import re
from collections.abc import Callable
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from hornbeam_server.schema.ddl import load_ddl, render_ddl
from hornbeam_server.schema.errors import SchemaError
from hornbeam_server.schema.workload import load_query_log, load_workload
from tests.depth import depth
from tests.fuzz.sql_grammar import garbled, mutated
from tests.schema.test_schema_ddl import GOOD

WORDS = re.findall(r"\w+|\s+|'[^']*'|[^\w\s]", GOOD)


@st.composite
def broken_files(draw: st.DrawFn) -> str:
    """Draw the valid file with some words dropped, doubled, swapped or replaced."""
    words = list(WORDS)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(words) - 1))
        words[at : at + 1] = draw(
            st.sampled_from([[], [words[at]] * 2, ["("], [")"], [","], [";"], ["'"], ['"'], ["$$"]])
            | st.sampled_from(WORDS).map(lambda word: [f" {word} "])
        )
    return "".join(words)


@settings(max_examples=depth(100, long=300))
@given(
    broken_files() | mutated(st.just(GOOD)) | garbled(st.just(GOOD)) | st.text(max_size=30),
)
@example("CREATE TABLE")
@example(f"CREATE TABLE t (a INT DEFAULT {'(' * 3_000}1{')' * 3_000})")
@example("ALTER")
@example("CREATE INDEX ON t")
@example("CREATE TABLE t (a INT DEFAULT)")
@example("CREATE TABLE t (CONSTRAINT x)")
@example("CREATE TABLE t (FOREIGN KEY (a))")
@example("CREATE TABLE t (a INT REFERENCES)")
@example("CREATE TABLE t (a INT PRIMARY KEY, UNIQUE)")
@example("CREATE TABLE t (PRIMARY KEY ())")
@example("CREATE TABLE t (a BLOB PRIMARY KEY DEFAULT x'abc')")
@example("CREATE TABLE t (a INT PRIMARY KEY, FOREIGN KEY () REFERENCES t ())")
@example("CREATE INDEX i ON t ()")
@example("CREATE TABLE t (a DECIMAL(x) PRIMARY KEY)")
@example("CREATE TABLE t (a DECIMAL(5,2,1) PRIMARY KEY)")
@example("CREATE TABLE t (a VARCHAR(MAX) PRIMARY KEY)")
@example("CREATE TABLE t (a INT REFERENCES t.u.v (a))")
@example("CREATE TABLE a.b.c.d (a INT)")
@example("ALTER TABLE t ADD CONSTRAINT x PRIMARY KEY USING INDEX y")
def test_any_ddl_is_loaded_or_refused_at_a_place(text: str) -> None:
    loaded = outcome(lambda: load_ddl(text, "x.sql"))
    if isinstance(loaded, SchemaError):
        assert loaded.file == "x.sql"
        assert 1 <= loaded.line <= text.count("\n") + 1
        assert loaded.column >= 1
        assert loaded.cure
    else:
        assert load_ddl(render_ddl(loaded)) == loaded


def outcome(load: Callable[[], Any]) -> Any:
    try:
        return load()
    except SchemaError as error:
        return error


@given(
    st.text(max_size=40)
    | st.text("'\"-;/*: namewight\n?$1", max_size=40)
    | mutated(st.just("-- name: x\nSELECT a FROM t WHERE b = ?;\n-- weight: 3\nDELETE FROM t"))
)
@example(f"SELECT {'(' * 3_000}1{')' * 3_000}")
@example(f"SELECT {'NOT ' * 3_000}true")
@example('{"sql": "SELECT 1", "more": ' + "[" * 3_000 + "]" * 3_000 + "}")
@example('{"sql": "\ud800"}')
def test_any_workload_is_loaded_or_refused_at_a_place(text: str) -> None:
    for load in (lambda: load_workload(text), lambda: load_query_log(text.split("\n"))):
        loaded = outcome(load)
        assert not isinstance(loaded, SchemaError) or (loaded.line >= 1 and loaded.cure)
