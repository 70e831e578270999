"""Requests that bypass FastAPI (`StrictRoute`) are answered like those that do not."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import ClientDisconnect

from hornbeam_server.api.rest.streams import unless_gone
from tests.api.api_world import PLAN, world

DIRECT, GENERAL = "application/json", "application/json; charset=utf-8"


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with world(tmp_path_factory.mktemp("direct")) as w:
        assert w.apply(**PLAN).status_code == 200
        yield w


@pytest.mark.parametrize("path", ["/v1/query", "/v1/transactions"])
@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (b'{"sql": "SELECT 1 AS n"}', {}),
        (b'{"statements": []}', {"Idempotency-Key": "a"}),
        (b'{"statements": []}', {"Idempotency-Key": "k" * 256}),
        (b'{"statements": []}', {"Idempotency-Key": ""}),
        (b'{"sql": 1, "statements": 1}', {}),
        (b"[]", {}),
        (b"", {}),
        (b'{"sql": NaN}', {}),
    ],
)
def test_the_direct_and_the_general_path_answer_alike(shop, path, content, headers):
    def answer(media_type):
        given = headers | {"Content-Type": media_type}
        response = shop.client.post(path, content=content, headers=given)
        document = response.json()
        for moving in ("transaction_id", "commit_ts", "bookmark", "timings_ms", "elapsed_ms"):
            document.pop(moving, None)
        document.pop("snapshot", None)
        return response.status_code, response.headers["content-type"], document

    assert answer(DIRECT) == answer(GENERAL)


async def test_a_client_that_goes_away_cancels_the_work():
    cleaned = []

    async def receive():
        return {"type": "http.disconnect"}

    async def work():
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append(True)

    with pytest.raises(ClientDisconnect):
        await unless_gone(receive, work())
    await asyncio.sleep(0)  # this task itself is not cancelled
    assert cleaned


def test_a_time_limit_around_the_work_is_no_disconnect():
    async def receive():
        await asyncio.sleep(60)

    async def run():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await unless_gone(receive, asyncio.sleep(60))
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())
