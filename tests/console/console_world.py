"""A small shop with API keys for the tests of the console."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

from tests.api.security_world import secure_world

HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
MANY = 5_000
BIG = 9_007_199_254_740_993
"""A number that a DOUBLE cannot hold."""


@contextmanager
def shop_world(folder: Path, **options: object) -> Iterator[SimpleNamespace]:
    """`root`, `reader`, `limited` (may read orders only) are API keys; `address` the server's."""
    with secure_world(folder, **options) as secured:
        inserts = [
            f"INSERT INTO customer VALUES (3, '{HOSTILE.replace(chr(39), chr(39) * 2)}', 0, NULL)",
            f"INSERT INTO kinds (k_id, k_text) VALUES ({BIG}, ''), (7, 'a,\"b')",
        ]
        for sql in inserts:
            done = secured.transact(secured.root, sql)
            assert done.status_code == 200, done.text
        rows = "".join(f"{n},1,{n}.5\n" for n in range(100, 100 + MANY))
        loaded = secured.request(
            secured.root,
            "POST",
            "/v1/load/orders",
            content="o_id,o_c_id,o_total\n" + rows,
            headers={"Content-Type": "text/csv"},
        )
        assert loaded.status_code == 200, loaded.text
        yield SimpleNamespace(
            secured=secured,
            world=secured.world,
            address=str(secured.world.client.base_url).rstrip("/"),
            root=secured.root,
            reader=secured.made("reader"),
            limited=secured.made("reader", {"orders": "read"}),
        )
