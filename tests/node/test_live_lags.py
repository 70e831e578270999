"""The histogram of the time until views show commits."""

from hornbeam_server.node.live.lags import BOUNDS_S, Lags


def test_lags_are_counted_by_bucket():
    lags = Lags()
    for seconds in (0.0, 0.025, 0.03, 0.2, 900.0):
        lags.add(seconds)
    assert lags.counts == [2, 1, 0, 1, *[0] * (len(BOUNDS_S) - 4), 1]
    assert (lags.batches, lags.sum_s) == (5, 900.255)


def test_a_share_of_the_batches_is_within_the_bound_of_its_bucket():
    lags = Lags()
    for seconds in (0.01, 0.01, 0.04, 0.2):
        lags.add(seconds)
    assert [lags.within_s(share) for share in (0.5, 0.51, 0.75, 0.99)] == [0.025, 0.05, 0.05, 0.25]
    lags.add(301.0)
    assert lags.within_s(0.99) == float("inf")
