"""The benchmark of the two kinds of gateways, at its smallest size, on a real HBase: every
operation does its work through both, and has figures."""

from bench.gateways import Options, measured
from hornbeam_server.storage.hbase import purging


async def test_each_operation_is_measured_through_both_kinds(real_cluster, monkeypatch):
    monkeypatch.setattr(purging, "LONG_PURGE_S", purging.LONG_PURGE_S)  # restored at the end
    shown = []
    options = Options(rows=1, repeats=1, rounds=1)
    figures = await measured(real_cluster, options, shown.append)
    operations = shown[1:]
    assert len(operations) == len(set(operations)) == 8
    found = {(figure.section, figure.name): figure.value for figure in figures}
    for operation in operations:
        first, second = found["Thrift 1", operation], found["Thrift 2", operation]
        assert first > 0
        assert found["Thrift 1 / Thrift 2", operation] == first / second
