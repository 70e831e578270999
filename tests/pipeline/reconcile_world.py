"""A served shop with every path as a view, with indexes, and functions that damage its rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from hornbeam.transport import Transport, open_transport, parse_url
from hornbeam_server.api.rest.app import create_app
from hornbeam_server.storage.ports import NEWEST, TOMBSTONE, Cell, Put
from tests.api.api_world import World, serving
from tests.txlayer.database_world import opened, shop

CUSTOMERS, ORDERS = 20, 200
ROWS = {
    "customer": "c_id,c_name,c_balance,c_email\n"
    + "".join(f"{n},name {n % 7},{n}.50,{n}@x\n" for n in range(CUSTOMERS)),
    "product": "p_id,p_name,p_stock\n" + "".join(f"{n},thing {n},{n}\n" for n in range(10)),
    "orders": "o_id,o_c_id,o_total\n"
    + "".join(f"{n},{n % CUSTOMERS if n % 11 else ''},{n}.00\n" for n in range(ORDERS)),
    "line": "l_o_id,l_no,l_p_id,l_quantity\n"
    + "".join(f"{n},{i},{n % 10},{n % 5}\n" for n in range(ORDERS) for i in range(2)),
    "gift": "g_id,g_o_id,g_no,g_text\n"
    + "".join(f"{n},{n},1,text {n}\n" if n % 3 else f"{n},,,\n" for n in range(ORDERS)),
}


@contextmanager
def served_shop(folder: Path) -> Iterator[World]:
    @asynccontextmanager
    async def application():
        async with opened(folder, shop()) as database:
            yield create_app(database.settings, database)

    with serving(application) as world:
        for relation, rows in ROWS.items():
            headers = {"Content-Type": "text/csv"}
            loaded = world.client.post(f"/v1/load/{relation}", content=rows, headers=headers)
            assert loaded.is_success, loaded.text
        yield world


def url_of(world: World) -> str:
    return f"hornbeam://{world.client.base_url.host}:{world.client.base_url.port}"


def transport_to(world: World) -> Transport:
    return open_transport(parse_url(url_of(world)), 60)


def cells(world: World, name: str) -> list[Cell]:
    database = world.database

    async def read():
        table = database.catalog.layout(name).table
        batches = [b async for b in database.store.scan(table, b"", None, NEWEST)]
        return [cell for batch in batches for cell in batch]

    return world.run(read())


def plant(world: World, name: str, puts: dict[bytes, bytes]) -> None:
    """Write cells directly into the store, past transactions."""
    database = world.database
    table = database.catalog.layout(name).table
    written = [Put(*item) for item in puts.items()]
    world.run(database.store.put({table: written}, database.watermark()))


def damaged(world: World, name: str, kinds: list[str], skip: int = 5) -> dict[str, int]:
    """Plant damage of several kinds, each at a different row after the first `skip`. Return how
    often each fault must be found."""
    codec = world.database.manager.state.codecs(name)
    puts: dict[bytes, bytes] = {}
    found = dict.fromkeys(("missing", "extra", "different", "misplaced", "undecodable"), 0)
    rows = iter(cells(world, name)[skip:])
    for kind in kinds:
        cell = next(rows)
        row = codec.decode(cell.value)
        stranger = _with_other_key(codec, row)
        match kind:
            case "missing":
                puts[cell.key] = TOMBSTONE
            case "extra":
                puts[codec.key(stranger)] = codec.encode(stranger)
            case "different":
                other = _with_other_values(codec, row)
                if other is None:
                    continue
                puts[cell.key] = codec.encode(other)
            case "misplaced":
                puts |= {cell.key: TOMBSTONE, codec.key(stranger): cell.value}
                found["missing"] += 1
            case "twice":
                puts[codec.key(stranger)] = cell.value
                found["misplaced"] += 1
            case "undecodable":
                puts[cell.key] = b"\x01\xc1"
            case "strange key":
                puts[b"\xfe" + cell.key] = cell.value
                found["misplaced"] += 1
        if kind in found:
            found[kind] += 1
    plant(world, name, puts)
    return found


KINDS = ["missing", "extra", "different", "misplaced", "twice", "undecodable", "strange key"]
_apart = iter(range(7_000, 1_000_000, 1_000))


def _with_other_key(codec, row):
    """Return the row with another key, which belongs to no base row."""
    values, by = list(row), next(_apart)
    for position in codec.layout.key_positions:
        if isinstance(values[position], int):
            values[position] += by
    return tuple(values)


def _with_other_values(codec, row):
    """Return a row with the same key and another text; None without a text outside the key."""
    for position, value in enumerate(row):
        if position not in codec.layout.key_positions and isinstance(value, str):
            return (*row[:position], value + "!", *row[position + 1 :])
    return None
