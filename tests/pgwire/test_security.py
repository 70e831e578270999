"""Keys, grants, TLS, the audit log and limits, as over REST."""

import json
import os
import socket
import ssl
import subprocess
import threading

import httpx
import psycopg
import pytest
from psycopg import errors

from hornbeam_server.api.security import api_keys
from tests.api.certificates import Authority
from tests.pgwire.wire_world import wire_world

DDL = """
CREATE TABLE hidden (h_id INTEGER PRIMARY KEY);
CREATE TABLE open (
  o_id INTEGER PRIMARY KEY, o_h INTEGER CONSTRAINT hidden_key REFERENCES hidden (h_id));
CREATE VIEW shown AS SELECT h_id AS number FROM hidden;
"""

SLOW = "SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b"


class Keyed:
    """A database that needs keys, and its administrator's key."""

    def __init__(self, world, root, audit):
        self.world = world
        self.root = root
        self.audit = audit

    def request(self, method, path, **content):
        async def send():
            transport = httpx.ASGITransport(self.world.app)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost"
            ) as client:
                head = {"Authorization": f"Bearer {self.root.text}"}
                return await client.request(method, path, headers=head, **content)

        return self.world.run(send())

    def made(self, name, role="writer", grants=None):
        body = {"name": name, "role": role, "grants": grants}
        answer = self.request("POST", "/v1/keys", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def connect(self, user, password, **options):
        return psycopg.connect(
            self.world.dsn(user), **{"password": password, "autocommit": True, **options}
        )


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    folder, root = tmp_path_factory.mktemp("keyed"), api_keys.fresh()
    audit = folder / "audit.log"
    options = {"bootstrap_key": api_keys.bootstrap_line(root), "audit_log": audit}
    with wire_world(folder, authentication="keys", key_refresh_s=0.05, **options) as world:
        found = Keyed(world, root, audit)
        with found.connect("bootstrap", root.text) as connection:
            connection.execute(DDL)
        yield found


def test_a_key_logs_in_by_its_name_or_id_and_scram(keyed):
    key = keyed.made("ann")
    for user in ("ann", key["id"]):
        with keyed.connect(user, key["key"], require_auth="scram-sha-256") as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
            assert connection.info.parameter_status("is_superuser") == "off"


def test_the_key_of_the_settings_logs_in_by_its_text(keyed):
    with keyed.connect("bootstrap", keyed.root.text, require_auth="password") as connection:
        assert connection.info.parameter_status("is_superuser") == "on"


@pytest.mark.parametrize("user", ["bob", "bootstrap", "missing"])
def test_a_wrong_password_and_an_unknown_user_get_the_same_answer(keyed, user):
    if user == "bob":
        keyed.made("bob")
    other = api_keys.fresh().text
    with pytest.raises(psycopg.OperationalError, match=f"failed for user '{user}'"):
        keyed.connect(user, other)
    last = json.loads(keyed.audit.read_text().splitlines()[-1])
    assert (last["event"], last["user"], last["status"]) == ("login", user, 401)
    assert other not in keyed.audit.read_text()


def test_a_key_of_another_user_does_not_log_in(keyed):
    keyed.made("carl")
    other = keyed.made("dora")
    for user in ("carl", "bootstrap"):
        with pytest.raises(psycopg.OperationalError):
            keyed.connect(user, other["key"])


def test_two_keys_of_one_name_log_in_by_their_ids_only(keyed):
    first, second = keyed.made("twin"), keyed.made("twin")
    with pytest.raises(psycopg.OperationalError):
        keyed.connect("twin", first["key"])
    with keyed.connect(second["id"], second["key"]) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_roles_and_grants_are_those_of_rest(keyed):
    reader = keyed.made("reader", "reader")
    granted = keyed.made("granted", "writer", {"open": "write"})
    with keyed.connect("reader", reader["key"]) as connection:
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("INSERT INTO open VALUES (1)")
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("CREATE TABLE more (m_id INTEGER PRIMARY KEY)")
    with keyed.connect("granted", granted["key"]) as connection:
        connection.execute("INSERT INTO open VALUES (2)")
        for sql in ("SELECT * FROM hidden", "INSERT INTO hidden VALUES (1)"):
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(sql)
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(sql, prepare=True)
        assert connection.execute("SELECT o_id FROM open WHERE o_id = 2").fetchone() == (2,)
    lines = [json.loads(line) for line in keyed.audit.read_text().splitlines()]
    written = [line for line in lines if "open" in line.get("changed", ())]
    assert written[-1]["name"] == "granted"


def test_psql_describes_to_a_key_what_it_may_read(keyed):
    """Two keys ask the same, one after the other."""
    commands = (r"\d", r"\d+ open", r"\d+ shown", r"\d hidden", r"\dt+", r"\di", r"\dv", r"\dn")

    def described(name, grants):
        key = keyed.made(name, "reader", grants)
        command = ["psql", "-X", "-w", "-A", keyed.world.dsn(name)]
        done = subprocess.run(
            command, input="\n".join(commands), env={**os.environ, "PGPASSWORD": key["key"]},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return done.stdout, done.stderr

    part, errors_of_part = described("part", {"open": "read", "shown": "read"})
    assert 'Did not find any relation named "hidden".' in errors_of_part
    assert len(errors_of_part.splitlines()) == 1
    assert "hidden" not in part
    for line in (
        "public|open|table|hornbeam",
        "public|shown|view|hornbeam",
        "o_h|integer||||plain||",
        '    "open_pkey" PRIMARY KEY, btree (o_id)',
        "number|integer||||plain|",
    ):
        assert line in part, part
    whole, errors_of_whole = described("whole", None)
    assert errors_of_whole == ""
    assert '    TABLE "open" CONSTRAINT "hidden_key" FOREIGN KEY (o_h) REFERENCES' in whole
    assert described("again", {"open": "read", "shown": "read"}) == (part, errors_of_part)


def test_the_system_catalog_of_a_key_is_that_of_its_grants_in_transactions_and_copies(keyed):
    key = keyed.made("copies", "writer", {"open": "write"})
    sql = "SELECT relname FROM pg_class WHERE relnamespace = 2200 ORDER BY 1"
    rows = [("open",), ("open_pkey",)]
    with keyed.connect("copies", key["key"]) as connection:
        assert connection.execute(sql).fetchall() == rows
        assert connection.execute(sql, prepare=True).fetchall() == rows
        with connection.transaction():
            connection.execute("INSERT INTO open VALUES (77)")
            assert connection.execute(sql).fetchall() == rows
            with connection.cursor("some") as cursor:
                assert cursor.execute(sql).fetchall() == rows
        with connection.cursor().copy(f"COPY ({sql}) TO STDOUT") as copy:
            assert list(copy.rows()) == rows
        with pytest.raises(errors.UndefinedTable):
            connection.execute("SELECT 'hidden'::regclass")
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("INSERT INTO open SELECT oid FROM pg_class")


def test_only_administrators_comment_and_a_key_reads_comments_on_what_it_may_see(keyed):
    shown = ["COLUMN open.o_id", "CONSTRAINT open_pkey ON open", "TABLE open"]
    chief, some = keyed.made("chief", "admin"), keyed.made("noted", "writer", {"open": "write"})
    with keyed.connect("chief", chief["key"]) as connection:
        for on in (
            "TABLE open",
            "COLUMN open.o_id",
            "TABLE hidden",
            "CONSTRAINT open_pkey ON open",
        ):
            connection.execute(f"COMMENT ON {on} IS 'on {on}'")
        assert connection.execute("SELECT count(*) FROM pg_description").fetchone() == (4,)
    with keyed.connect("noted", some["key"]) as connection:
        found = connection.execute("SELECT description FROM pg_description ORDER BY 1").fetchall()
        assert found == [(f"on {on}",) for on in shown]
        with pytest.raises(errors.InsufficientPrivilege):
            connection.execute("COMMENT ON TABLE open IS 'mine'")
    document = keyed.request("GET", "/v1/schema").json()
    assert "TABLE hidden" in document["comments"]


def test_a_key_that_is_revoked_ends_to_work_in_an_open_session(keyed):
    key = keyed.made("brief")
    with keyed.connect("brief", key["key"]) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert keyed.request("DELETE", f"/v1/keys/{key['id']}").is_success
        with pytest.raises(errors.InvalidAuthorizationSpecification):
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        keyed.connect("brief", key["key"])


def test_a_secret_of_another_session_cancels_nothing(keyed):
    key = keyed.made("slow", "reader")
    slow = "SELECT count(*) FROM generate_series(1, 3000) a, generate_series(1, 3000) b"
    with keyed.connect("slow", key["key"]) as connection:
        done = threading.Event()

        def query():
            with connection.cursor() as cursor:
                assert cursor.execute(slow).fetchone() == (9_000_000,)
            done.set()

        thread = threading.Thread(target=query)
        thread.start()
        for process in [each.pid for each in keyed.world.app.state.backends.shown()]:
            request = (16).to_bytes(4) + (80877102).to_bytes(4) + process.to_bytes(4) + bytes(4)
            with socket.create_connection(("127.0.0.1", keyed.world.port), timeout=10) as raw:
                raw.sendall(request)
                assert raw.recv(1) == b""
        thread.join()
        assert done.is_set()


def test_a_server_with_a_certificate_speaks_tls_only(tmp_path):
    authority = Authority(tmp_path / "ca")
    certificate, key = authority.signed("server", "IP:127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with wire_world(tmp_path, context) as world:
        options = {"sslmode": "verify-full", "sslrootcert": str(authority.certificate)}
        with world.connect(**options) as connection:
            assert connection.pgconn.ssl_in_use
            rows = connection.execute("SELECT * FROM generate_series(1, 20000)").fetchall()
            assert len(rows) == 20_000
            timer = threading.Timer(0.2, connection.cancel_safe)
            timer.start()
            with pytest.raises(errors.QueryCanceled):
                connection.execute(SLOW)
            timer.join()
        with pytest.raises(psycopg.OperationalError, match="needs TLS"):
            world.connect(sslmode="disable")


def test_a_connection_may_begin_with_tls(tmp_path):
    """As clients with PostgreSQL's library 17 or newer ask for it: without a request in the
    clear."""
    authority = Authority(tmp_path / "ca")
    certificate, key = authority.signed("server", "IP:127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    direct = {"sslmode": "verify-full", "sslnegotiation": "direct"}
    direct["sslrootcert"] = str(authority.certificate)
    with wire_world(tmp_path, context) as world:
        with world.connect(**direct) as connection:
            assert connection.pgconn.ssl_in_use
            rows = connection.execute("SELECT * FROM generate_series(1, 20000)").fetchall()
            assert len(rows) == 20_000
            timer = threading.Timer(0.2, connection.cancel_safe)
            timer.start()
            with pytest.raises(errors.QueryCanceled):
                connection.execute(SLOW)
            timer.join()
        assert _alpn(world.port, authority, ["postgresql"]) == "postgresql"
        for others in ([], ["http/1.1"]):
            with pytest.raises(ConnectionError):
                _alpn(world.port, authority, others)
    with wire_world(tmp_path / "plain") as world, pytest.raises(psycopg.OperationalError):
        world.connect(**direct)


def _alpn(port: int, authority: Authority, names: list[str]) -> str | None:
    """The protocol that the server picks in a handshake with which a connection begins, and which
    comes in several pieces. Raises ConnectionError if the server ends the connection without an
    answer to the next message."""
    client = ssl.create_default_context(cafile=authority.certificate)
    client.set_alpn_protocols(names)
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    tunnel = client.wrap_bio(received, sent, server_hostname="127.0.0.1")
    with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def step(work):
            while True:
                try:
                    done = work()
                except ssl.SSLWantReadError:
                    done = None
                out = sent.read()
                for piece in (out[:1], out[1:50], out[50:]):
                    raw.sendall(piece)
                if done is not None:
                    return done
                data = raw.recv(1 << 16)
                if not data:
                    raise ConnectionResetError
                received.write(data)

        step(lambda: tunnel.do_handshake() or True)
        step(lambda: tunnel.write((8).to_bytes(4) + (80877103).to_bytes(4)))  # encrypted already
        if step(lambda: tunnel.read(1)) != b"N":
            raise ConnectionResetError
        return tunnel.selected_alpn_protocol()


def test_connections_beyond_the_limit_are_refused(tmp_path):
    unencrypted = {"sslmode": "disable", "gssencmode": "disable"}
    with (
        wire_world(tmp_path, max_connections=2) as world,
        world.connect(),
        world.connect(),
        pytest.raises(psycopg.OperationalError, match="too many connections"),
    ):
        world.connect(**unencrypted)
