import asyncio
import datetime as dt
import uuid
from dataclasses import replace
from decimal import Decimal

import pytest

from hornbeam_server.schema.errors import Corruption, IdempotencyMismatch, InvalidRequest
from hornbeam_server.storage.ports import Put
from hornbeam_server.storage.snapshot import ReadItem
from hornbeam_server.txlayer.statements.requests import (
    InsertRows,
    Precondition,
    RepairRows,
    Statement,
    StatementResult,
    TransactionRequest,
    TransactionResult,
)
from hornbeam_server.txlayer.transactions.outcomes import (
    TABLE,
    encode_outcome,
    find_outcome,
    request_hash,
    transaction_id_for,
)
from tests.txlayer.txlayer_world import MemoryStore

ID = transaction_id_for("order 1")
ROW = (
    None,
    True,
    -(1 << 63),
    1.5,
    Decimal("12.340"),
    "text",
    b"\x00bytes",
    dt.date(2020, 2, 29),
    dt.datetime(2020, 2, 29, 1, 2, 3, 4),
    dt.datetime(2020, 2, 29, 1, 2, 3, 4, dt.UTC),
    uuid.UUID(int=5),
)
REQUEST = TransactionRequest((Statement("INSERT INTO t VALUES (?)", (1,)),), idempotency_key="k")
ANSWER = TransactionResult(
    ID, 0, (StatementResult(1, ("a",), ("BIGINT",), (ROW,)), StatementResult(3)), {"t": 1, "v": 2}
)


def encoded_answer(owner: str = "") -> bytes:
    hash_ = request_hash(REQUEST)
    return asyncio.run(encode_outcome(hash_, ANSWER.statements, ANSWER.affected, owner))


def recorded(value: bytes, transaction_id: str = ID):
    async def run():
        store = MemoryStore()
        await store.put({TABLE: [Put(bytes.fromhex(ID), value)]}, 77)
        return await find_outcome(store, transaction_id)

    return asyncio.run(run())


def test_an_answer_is_read_back_with_its_commit_timestamp():
    outcome = recorded(encoded_answer())
    assert outcome is not None
    assert outcome.answer == replace(ANSWER, commit_ts=77)
    assert outcome.answer.statements[0].rows[0][4].as_tuple().exponent == -3
    assert [type(value) for value in outcome.answer.statements[0].rows[0]] == [
        type(value) for value in ROW
    ]
    assert (outcome.transaction_id, outcome.commit_ts) == (ID, 77)


def test_the_same_request_gets_the_answer_and_another_is_refused():
    outcome = recorded(encoded_answer())
    assert outcome.answer_to(replace(REQUEST, bookmark=9, timeout_s=3.0)) == outcome.answer
    other = replace(REQUEST, statements=(Statement("INSERT INTO t VALUES (?)", (2,)),))
    with pytest.raises(IdempotencyMismatch) as refused:
        outcome.answer_to(other)
    assert refused.value.details["transaction_id"] == ID


def test_an_unrecorded_transaction_has_no_outcome_and_an_invalid_id_is_refused():
    value = encoded_answer()
    assert recorded(value, transaction_id_for("order 2")) is None
    with pytest.raises(InvalidRequest, match="no transaction id"):
        recorded(value, "not hexadecimal")


@pytest.mark.parametrize(
    "value", [b"\x01", b"\x93\xc4\x00\x91\x94\x00\x90\x90\x91\x91\xd4\x63\x00\x80"]
)
def test_a_damaged_row_raises_corruption(value):
    with pytest.raises(Corruption, match=ID):
        recorded(value)


def test_the_id_depends_only_on_the_key_and_its_owner():
    assert len(ID) == 32
    assert bytes.fromhex(ID)
    assert transaction_id_for("order 1") == ID != transaction_id_for("order 2")
    assert transaction_id_for("order 1", "") == ID != transaction_id_for("order 1", "ann")
    assert transaction_id_for("order 1", "ann") != transaction_id_for("order 1", "bob")


def test_an_answer_has_its_owner_and_an_older_answer_has_none():
    value = encoded_answer("ann")
    assert recorded(value).owner == "ann"
    before = bytes([value[0] - 2]) + value[1 : -len(b"\xa3ann\x80")]
    assert recorded(before).owner == ""
    assert recorded(before).answer == recorded(value).answer


def test_requests_with_different_effects_have_different_hashes():
    statement = Statement("UPDATE t SET a = ?", (1,))
    requests = [
        TransactionRequest((statement,)),
        TransactionRequest((statement, statement)),
        TransactionRequest((replace(statement, parameters=("1",)),)),
        TransactionRequest((replace(statement, session={"s": 1}),)),
        TransactionRequest((replace(statement, parameters={"a": 1, "b": 2}),)),
        TransactionRequest((statement,), preconditions=(Precondition("t", (1,), None),)),
        TransactionRequest((statement,), preconditions=(Precondition("t", (1,), 5),)),
        TransactionRequest((statement,), reads=(ReadItem("t", b"k", 5),)),
        TransactionRequest((InsertRows("t", ("a",), [(1,)]),)),
        TransactionRequest((InsertRows("t", ("a",), [(2,)]),)),
        TransactionRequest((RepairRows("t", (b"k",)),)),
    ]
    assert len({request_hash(request) for request in requests}) == len(requests)


def test_the_hash_does_not_depend_on_the_order_of_named_parameters():
    one = TransactionRequest((Statement("s", {"a": 1, "b": 2}),))
    two = TransactionRequest((Statement("s", {"b": 2, "a": 1}),))
    assert request_hash(one) == request_hash(two)


@pytest.mark.parametrize("value", [object(), 1 << 70, "\ud800"])
def test_a_parameter_that_is_no_value_is_refused(value):
    with pytest.raises(InvalidRequest, match="cannot be encoded"):
        request_hash(TransactionRequest((Statement("s", (value,)),)))
