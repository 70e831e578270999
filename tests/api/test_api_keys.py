"""API keys: how they are stored, when they are valid, and how soon other nodes learn of changes."""

from __future__ import annotations

import asyncio
import hmac
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from hornbeam_server.api.rest.authentication import KeyRing
from hornbeam_server.api.rest.dependencies import admitted
from hornbeam_server.api.rest.routes import queries, transactions
from hornbeam_server.api.security import api_keys
from hornbeam_server.api.security.roles import Grant, Role
from hornbeam_server.node.node import Serving
from hornbeam_server.node.reads import Reads
from hornbeam_server.node.settings import Settings
from hornbeam_server.schema.errors import Corruption, NotFound, Unauthenticated, Unavailable
from hornbeam_server.storage.ports import NEWEST, Put
from hornbeam_server.storage.rocks.store import RocksStore
from hornbeam_server.txlayer.ddl.claim import NO_CATALOG
from tests.api.security_world import SecureWorld, secure_world

T = TypeVar("T")


class HandClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)


class Away:
    """A store that may be unavailable or slow; it counts its scans."""

    def __init__(self, store: RocksStore) -> None:
        self.store = store
        self.reachable = True
        self.gate = asyncio.Event()
        self.gate.set()
        self.reads = 0

    def __getattr__(self, name: str):
        return getattr(self.store, name)

    async def scan(self, *place):
        self.reads += 1
        async for batch in self.store.scan(*place):
            yield batch
        await self.gate.wait()
        if not self.reachable:
            raise Unavailable("the store is away")


@asynccontextmanager
async def node(store, **settings):
    """A node's key ring over `store`, and the clock of that ring."""
    clock = HandClock()
    serving = Serving(SimpleNamespace(store=store, catalog=NO_CATALOG))
    ring = KeyRing(serving, Settings(key_refresh_s=2, **settings), clock)
    yield ring, clock


def over_a_store(work):
    """Run the coroutine function `work(store)` over a new RocksDB."""

    async def test(tmp_path):
        store = Away(RocksStore.open(tmp_path / "store"))
        try:
            await store.create_table(api_keys.TABLE)
            await asyncio.wait_for(work(store), 30)
        finally:
            await store.close()

    test.__name__, test.__doc__ = work.__name__, work.__doc__
    return test


async def added(store, role: Role = Role.READER, **more) -> str:
    fresh = api_keys.fresh()
    grants = more.pop("grants", None)
    key = api_keys.ApiKey(fresh.id, api_keys.digest_of(fresh.text), "x", role, grants, 5, **more)
    await api_keys.add_key(store, key, 10)
    return fresh.text


def test_keys_have_256_secret_bits_and_a_public_part():
    many = [api_keys.fresh() for _ in range(500)]
    assert all(re.fullmatch(r"hb_[0-9a-f]{12}_[0-9a-f]{64}", fresh.text) for fresh in many)
    assert len({fresh.id for fresh in many}) == len({fresh.text[16:] for fresh in many}) == 500
    assert all(api_keys.id_in(fresh.text) == fresh.id for fresh in many)
    ones = sum(int(fresh.text[16:], 16).bit_count() for fresh in many)
    assert abs(ones - 500 * 128) < 5 * (500 * 64) ** 0.5


def test_nothing_shows_a_secret():
    fresh = api_keys.fresh()
    key = api_keys.ApiKey(fresh.id, api_keys.digest_of(fresh.text), "x", Role.ADMIN, None, 5)
    secret = fresh.text[16:]
    for shown in (
        repr(fresh),
        f"{key!r} {key}",
        repr(key.principal(NO_CATALOG)),
        api_keys.bootstrap_line(fresh),
    ):
        assert fresh.id in shown
        assert secret not in shown
    assert {"digest", "verifier"}.isdisjoint(api_keys.document(key, 0, NO_CATALOG))


OLD_ROW = bytes.fromhex(
    "99ac303132333435363738396162c4200101010101010101010101010101010101010101010101010101010101010101"
    "a36f6c64a677726974657281a46974656da5777269746505a00000"
)
"""A row of the table before keys had verifiers."""


def test_a_key_without_a_verifier_is_read():
    key = api_keys._decoded(OLD_ROW)
    assert (key.id, key.name, key.role) == ("0123456789ab", "old", Role.WRITER)
    assert key.grants == {"item": "write"}
    assert key.verifier == ""


def test_a_verifier_does_not_show_the_key():
    fresh = api_keys.fresh()
    verifiers = {api_keys.verifier_of(fresh.text) for _ in range(2)}
    assert len(verifiers) == 2
    assert not any(fresh.text[16:] in verifier for verifier in verifiers)


def test_digests_are_compared_in_constant_time(monkeypatch):
    compared = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return one == other

    monkeypatch.setattr(hmac, "compare_digest", compare)
    fresh, other = api_keys.fresh(), api_keys.fresh()
    key = api_keys.ApiKey(fresh.id, api_keys.digest_of(fresh.text), "x", Role.ADMIN, None, 5)
    assert api_keys.matches(fresh.text, key)
    assert not api_keys.matches(f"hb_{fresh.id}_{other.text[16:]}", key)
    assert [len(one) for one, _ in compared] == [32, 32]
    assert {other for _, other in compared} == {key.digest}


@over_a_store
async def test_only_a_digest_is_stored(store):
    text = await added(store)
    cells = [
        cell async for batch in store.scan(api_keys.TABLE, b"", None, NEWEST) for cell in batch
    ]
    assert [cell.key.decode() for cell in cells] == [api_keys.id_in(text)]
    secret = text[16:]
    assert secret.encode() not in cells[0].value
    assert bytes.fromhex(secret) not in cells[0].value
    assert api_keys.digest_of(text) in cells[0].value


@over_a_store
async def test_a_stored_key_is_read_back_unchanged(store):
    text = await added(store, Role.WRITER, grants={"a": Grant.WRITE}, created_by="y", expires_ms=7)
    (key,) = (await api_keys.read_keys(store)).values()
    principal = key.principal(NO_CATALOG)
    assert principal.key == api_keys.id_in(text)
    assert principal.role is Role.WRITER
    assert key.grants == {"a": Grant.WRITE}
    assert (key.created_by, key.created_ms, key.expires_ms, key.revoked_ms) == ("y", 5, 7, 0)


@over_a_store
async def test_an_id_is_never_used_twice(store):
    text = await added(store)
    ((key_id, key),) = (await api_keys.read_keys(store)).items()
    await api_keys.revoke_key(store, key_id, 20, 20)
    with pytest.raises(Unavailable):
        await api_keys.add_key(store, key, 30)
    assert api_keys.id_in(text) == key_id


@over_a_store
async def test_a_second_revocation_keeps_the_first_time(store):
    key_id = api_keys.id_in(await added(store))
    assert (await api_keys.revoke_key(store, key_id, 20, 20)).revoked_ms == 20
    assert (await api_keys.revoke_key(store, key_id, 90, 90)).revoked_ms == 20
    with pytest.raises(NotFound):
        await api_keys.revoke_key(store, "0" * 12, 20, 20)


@over_a_store
async def test_a_damaged_key_is_corruption_and_grants_no_access(store):
    await store.put({api_keys.TABLE: [Put(b"0" * 12, b"\x93\x01\x02\x03")]}, 10)
    async with node(store) as (ring, _):
        with pytest.raises(Corruption):
            await ring.principal(f"hb_{'0' * 12}_{'0' * 64}")


@over_a_store
async def test_a_key_is_valid_until_it_expires(store):
    async with node(store) as (ring, clock):
        text = await added(store, expires_ms=clock.wall_ms() + 1_500)
        assert (await ring.principal(text)).role is Role.READER
        clock.now_s += 1.499
        await ring.principal(text)
        clock.now_s += 0.001
        with pytest.raises(Unauthenticated, match="expired"):
            await ring.principal(text)


@over_a_store
async def test_the_right_id_with_another_secret_is_refused(store):
    async with node(store) as (ring, _):
        text, other = await added(store), api_keys.fresh().text
        for wrong in (text[:16] + other[16:], other[:16] + text[16:], text[:-1], text + "0", ""):
            with pytest.raises(Unauthenticated, match="not known"):
                await ring.principal(wrong)
        await ring.principal(text)


@over_a_store
async def test_other_nodes_refuse_a_revoked_key_within_the_refresh_time(store):
    """This holds for every interval between requests."""
    for step_s in (0.1, 0.7, 1.3, 2.0, 5.0):
        async with node(store) as (ring, clock):
            text = await added(store)
            await ring.principal(text)
            await api_keys.revoke_key(store, api_keys.id_in(text), 20, 20)
            revoked_s = clock.now_s
            while clock.now_s <= revoked_s + 2:
                clock.now_s += step_s
                try:
                    await ring.principal(text)
                except Unauthenticated:
                    break
                await asyncio.sleep(0)
            else:
                with pytest.raises(Unauthenticated):
                    await ring.principal(text)


@over_a_store
async def test_regular_requests_do_not_wait_for_a_refresh_of_the_keys(store):
    async with node(store) as (ring, clock):
        text = await added(store)
        await ring.principal(text)
        for _ in range(10):
            clock.now_s += 1.1
            before = store.reads
            coroutine = ring.principal(text)
            with pytest.raises(StopIteration):  # it returns without suspending
                coroutine.send(None)
            await asyncio.wait({ring._reading})
            assert store.reads == before + 1
        assert store.reads == 11


@over_a_store
async def test_one_scan_serves_all_waiting_requests(store):
    async with node(store) as (ring, _):
        text = await added(store)
        await asyncio.gather(*(ring.principal(text) for _ in range(100)))
        assert store.reads == 1


@over_a_store
async def test_a_reload_ignores_a_scan_that_began_before_it(store):
    """Otherwise a key revoked here would stay valid until the next refresh."""
    async with node(store) as (ring, clock):
        text = await added(store)
        await ring.principal(text)
        store.gate.clear()
        clock.now_s += 1.1
        await ring.principal(text)
        await asyncio.sleep(0.05)  # the scan has read the key, and waits
        await api_keys.revoke_key(store, api_keys.id_in(text), 20, 20)
        reloading = asyncio.ensure_future(ring.reload())
        await asyncio.sleep(0.05)
        store.gate.set()
        await reloading
        with pytest.raises(Unauthenticated, match="revoked"):
            await ring.principal(text)


@over_a_store
async def test_without_the_store_keys_are_valid_for_the_refresh_time_only(store):
    async with node(store) as (ring, clock):
        text = await added(store)
        await ring.principal(text)
        store.reachable = False
        clock.now_s += 1.9
        await ring.principal(text)
        await asyncio.sleep(0.01)
        clock.now_s += 0.2
        with pytest.raises(Unavailable):
            await ring.principal(text)
        watching = await ring.principal(text, however_old=True)
        assert watching.role is Role.READER
        with pytest.raises(Unauthenticated):
            await ring.principal(api_keys.fresh().text, however_old=True)
        store.reachable = True
        await ring.principal(text)


@over_a_store
async def test_monitoring_is_unavailable_before_the_first_scan_of_keys(store):
    async with node(store) as (ring, _):
        store.reachable = False
        with pytest.raises(Unavailable):
            await ring.principal(api_keys.fresh().text, however_old=True)


@over_a_store
async def test_a_node_that_does_not_serve_refuses_every_key(store):
    ring = KeyRing(Serving(), Settings())
    with pytest.raises(Unavailable, match="another node"):
        await ring.principal(await added(store))


@over_a_store
async def test_the_key_of_the_settings_is_an_administrators(store):
    fresh = api_keys.fresh()
    async with node(store, bootstrap_key=api_keys.bootstrap_line(fresh)) as (ring, _):
        found = await ring.principal(fresh.text)
        assert (found.key, found.name, found.role) == (fresh.id, api_keys.BOOTSTRAP, Role.ADMIN)
    async with node(store) as (ring, _):
        with pytest.raises(Unauthenticated):
            await ring.principal(fresh.text)


# ---------------------------------------------------------------- over REST


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    with secure_world(tmp_path_factory.mktemp("keys"), key_refresh_s=60) as served:
        yield served


def status(secured: SecureWorld, key: str) -> int:
    return secured.request(key, "GET", "/v1/status").status_code


def test_a_key_is_valid_from_its_creation_to_its_revocation(secured):
    """This node refreshes its keys only once a minute, but applies its own changes at once."""
    for _ in range(20):
        key = secured.made("reader")
        assert status(secured, key) == 200
        ended = secured.revoke(key)
        assert (ended.status_code, ended.json()["state"]) == (200, "revoked")
        assert status(secured, key) == 401
        assert secured.revoke(key).json() == ended.json()


def test_a_key_may_expire(secured):
    made = secured.made_document("reader", valid_for_s=1)
    assert made["expires_ms"] == made["created_ms"] + 1_000
    assert status(secured, made["key"]) == 200
    deadline = time.monotonic() + 10
    while status(secured, made["key"]) == 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    refused = secured.request(made["key"], "GET", "/v1/status")
    assert refused.json()["detail"] == "This API key is expired."


def test_a_key_is_shown_once(secured):
    made = secured.request(secured.root, "POST", "/v1/keys", json={"name": "x", "role": "writer"})
    assert made.headers["Cache-Control"] == "no-store"
    listed = secured.request(secured.root, "GET", "/v1/keys")
    (found,) = [key for key in listed.json() if key["id"] == made.json()["id"]]
    assert found == {name: v for name, v in made.json().items() if name != "key"}
    assert found["created_by"] == api_keys.id_in(secured.root)
    assert made.json()["key"][16:] not in listed.text
    assert api_keys.digest_of(made.json()["key"]).hex() not in listed.text


def test_keys_outlive_the_server(tmp_path):
    with secure_world(tmp_path) as first:
        kept, ended = first.made("reader", {"customer": "read"}), first.made("reader")
        first.revoke(ended)
        administrator = first.made("admin")
    from tests.api.api_world import world

    with world(tmp_path, authentication="keys") as second:
        secured = SecureWorld(second, administrator)
        assert status(secured, first.root) == 401  # this server has no bootstrap_key
        assert status(secured, ended) == 401
        assert secured.query(kept, "SELECT count(*) FROM customer").status_code == 200
        assert secured.query(kept, "SELECT count(*) FROM orders").status_code == 403


def alter(secured: SecureWorld, sql: str) -> None:
    changed = secured.request(secured.root, "POST", "/v1/schema/alter", json={"sql": sql}).json()
    body = {"ddl": changed["ddl"], "workload": None, "renames": changed["renames"]}
    planned = secured.request(secured.root, "POST", "/v1/schema/plan", json=body).json()
    body |= {"plan_id": planned["plan_id"], "allow_drop": True}
    applied = secured.request(secured.root, "POST", "/v1/schema/apply", json=body)
    assert applied.status_code == 200, applied.text


def test_grants_follow_a_renamed_relation_and_not_its_old_name(tmp_path):
    with secure_world(tmp_path) as secured:
        key = secured.made("reader", {"customer": "read"})
        alter(secured, "ALTER TABLE customer RENAME TO buyer")
        assert secured.query(key, "SELECT count(*) FROM buyer").status_code == 200
        assert secured.query(key, "SELECT count(*) FROM customer").status_code == 422
        alter(secured, "ALTER TABLE orders RENAME TO customer")
        assert secured.query(key, "SELECT count(*) FROM customer").status_code == 403
        later = secured.made_document("reader", grants={"customer": "read"})
        assert later["grants"] == {"customer": "read"}
        alter(secured, "ALTER TABLE customer RENAME TO orders")
        listed = secured.request(secured.root, "GET", "/v1/keys").json()
        grants = {each["id"]: each["grants"] for each in listed}
        assert grants[later["id"]] == {"orders": "read"}
        assert grants[api_keys.id_in(key)] == {"buyer": "read"}


def then_exchanged(secured: SecureWorld, work: Callable[..., Awaitable[T]]) -> Callable[..., Any]:
    """`work`, whose first call gives `orders` the name customer before it returns."""
    done: list[bool] = []

    def exchange() -> None:
        alter(secured, "ALTER TABLE customer RENAME TO buyer")
        alter(secured, "ALTER TABLE orders RENAME TO customer")

    async def working(*given: object) -> T:
        result = await work(*given)
        if not done:
            done.append(True)
            await asyncio.to_thread(exchange)
        return result

    return working


def exchange_once_admitted(secured: SecureWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the next request is admitted, and before it runs, give `orders` the name customer."""
    exchanged = then_exchanged(secured, admitted)
    for module in (queries, transactions):
        monkeypatch.setattr(module, "admitted", exchanged)


@pytest.mark.parametrize("all_relations", [False, True])
def test_a_name_that_changes_hands_before_a_query_runs_is_admitted_again(
    tmp_path, monkeypatch, all_relations
):
    with secure_world(tmp_path) as secured:
        key = secured.made("reader", None if all_relations else {"customer": "read"})
        exchange_once_admitted(secured, monkeypatch)
        answer = secured.query(key, "SELECT count(*) FROM customer")
        assert answer.status_code == (200 if all_relations else 403), answer.text


@pytest.mark.parametrize("analyze", [False, True])
def test_a_name_that_changes_hands_before_a_query_is_explained_is_admitted_again(
    tmp_path, monkeypatch, analyze
):
    with secure_world(tmp_path) as secured:
        key = secured.made("reader", {"customer": "read"})
        exchange_once_admitted(secured, monkeypatch)
        body = {"sql": "SELECT count(*) FROM customer", "analyze": analyze}
        assert secured.request(key, "POST", "/v1/explain", json=body).status_code == 403


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_name_that_changes_hands_before_a_write_runs_is_admitted_again(
    tmp_path, monkeypatch, dry_run
):
    with secure_world(tmp_path) as secured:
        key = secured.made("writer", {"customer": "write"})
        exchange_once_admitted(secured, monkeypatch)
        assert secured.transact(key, "DELETE FROM customer", dry_run=dry_run).status_code == 403
        rows = secured.query(secured.root, "SELECT count(*) FROM customer").json()["rows"]
        assert rows == [[2]]


def test_pending_writes_of_a_query_run_under_the_catalog_of_its_plan(tmp_path, monkeypatch):
    with secure_world(tmp_path) as secured:
        key = secured.made("writer", {"customer": "write"})
        planned = Reads._planned
        monkeypatch.setattr(Reads, "_planned", then_exchanged(secured, planned))
        pending = [{"sql": "DELETE FROM customer WHERE c_id = 1"}]
        answer = secured.query(key, "SELECT c_id FROM customer", pending=pending)
        assert answer.status_code == 200, answer.text
        assert answer.json()["rows"] == [[2]]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"name": "", "role": "reader"}, 422),
        ({"name": "x" * 101, "role": "reader"}, 422),
        ({"name": "x", "role": "root"}, 422),
        ({"name": "x"}, 422),
        ({"name": "x", "role": "admin", "grants": {}}, 422),
        ({"name": "x", "role": "admin", "grants": {"customer": "read"}}, 422),
        ({"name": "x", "role": "reader", "grants": {"customer": "write"}}, 422),
        ({"name": "x", "role": "writer", "grants": {"customer__orders": "write"}}, 422),
        ({"name": "x", "role": "writer", "grants": {"customer": "own"}}, 422),
        ({"name": "x", "role": "writer", "grants": {"nowhere": "read"}}, 404),
        ({"name": "x", "role": "writer", "grants": {"s.keys": "read"}}, 404),
        ({"name": "x", "role": "reader", "valid_for_s": 0}, 422),
        ({"name": "x", "role": "reader", "valid_for_s": 10**12}, 422),
    ],
)
def test_invalid_keys_are_not_created(secured, body, code):
    before = secured.request(secured.root, "GET", "/v1/keys").json()
    refused = secured.request(secured.root, "POST", "/v1/keys", json=body)
    assert refused.status_code == code, refused.text
    assert secured.request(secured.root, "GET", "/v1/keys").json() == before


def test_the_key_of_the_settings_cannot_be_revoked_by_request(secured):
    refused = secured.revoke(secured.root)
    assert refused.status_code == 404
    assert "settings" in refused.json()["cure"]
