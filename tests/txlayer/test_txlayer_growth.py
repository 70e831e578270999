"""How many rows were added since the last count."""

from hornbeam_server.txlayer.transactions.row_count_deltas import Growth


def known(growth):
    return {name: n for name, n in growth.since_counted().items() if n}


def test_insertions_of_all_members_are_added_and_counted_once():
    growth = Growth()
    growth.own["r"] += 5
    growth.hear({"a": {"r": 10, "s": -1}, "b": {"r": 1}})
    assert known(growth) == {"r": 16, "s": -1}
    growth.count()
    assert known(growth) == {}
    growth.own["r"] += 1
    growth.hear({"a": {"r": 12, "s": -1}, "b": {"r": 1}})
    assert known(growth) == {"r": 3}


def test_reports_of_former_members_are_kept_until_the_next_count():
    growth = Growth()
    growth.hear({"a": {"r": 10}})
    growth.hear({})
    assert known(growth) == {"r": 10}
    growth.count()
    growth.hear({})
    assert known(growth) == {}
    assert growth._said.keys() == growth._counted.keys() == {""}
