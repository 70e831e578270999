"""Results of a run, written and read."""

from dataclasses import replace

import pytest

from bench.peers.results import OtherFormat, Results, Statement, Timing, decode, encode, way

RESULTS = Results(
    began="2026-01-02T03:04:05+00:00",
    command="python -m bench.peers.run",
    options={"rounds": 2, "seed": 7},
    machine={"cores": 2},
    versions_by_system={"Hornbeam": {"hornbeam": "0.1.0"}},
    systems=("Hornbeam", "Baseline"),
    statements=(Statement("get_book", "SELECT 1", "join", view=True),),
    timings={
        "Hornbeam": {"get_book": Timing((1.5, 2.0), rows=2, equal=True)},
        "Baseline": {"get_book": Timing(error="no such table")},
    },
    storage={"Hornbeam": {"item": 100}},
    bare={"get": Timing((0.5, 0.6))},
    joins={500: {"Q1": {way("Hornbeam", view=True): Timing((9.0,))}}},
    load_rows_s={"Hornbeam": 1_000.0},
)


def test_results_survive_a_round_trip():
    assert decode(encode(RESULTS)) == RESULTS
    assert encode(RESULTS).count(b"\n") > 20  # several lines, for readable diffs


@pytest.mark.parametrize(
    "document", [b"", b"[]", b"{}", encode(replace(RESULTS, format=2)), encode(RESULTS)[:-9]]
)
def test_another_document_is_refused(document):
    with pytest.raises(OtherFormat):
        decode(document)
