"""The server under attack: its process, a small schema with rows, and their verification."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]
START_S = 60.0
STOP_S = 60.0
GUILDS, PLAYERS, GAMES = 100, 3_000, 7_000

DDL = """
CREATE TABLE guild (g_id INTEGER PRIMARY KEY, g_name TEXT NOT NULL, g_region TEXT NOT NULL);
CREATE TABLE player (
  p_id INTEGER PRIMARY KEY, p_g_id INTEGER NOT NULL REFERENCES guild (g_id),
  p_name TEXT NOT NULL, p_points BIGINT NOT NULL, p_joined DATE);
CREATE TABLE game (
  m_id INTEGER PRIMARY KEY, m_p_id INTEGER NOT NULL REFERENCES player (p_id),
  m_score DOUBLE PRECISION, m_note TEXT);
CREATE TABLE journal (
  j_id BIGINT PRIMARY KEY, j_g_id INTEGER NOT NULL REFERENCES guild (g_id), j_note TEXT NOT NULL);
CREATE TABLE scratch (
  s_id BIGINT PRIMARY KEY, s_text TEXT, s_number DOUBLE PRECISION, s_data BYTEA, s_json JSON);
CREATE INDEX player_name ON player (p_name);
CREATE INDEX game_player ON game (m_p_id);
"""
"""The polite client writes to `journal` only, the hostile clients write to `scratch` only."""
WORKLOAD = """
SELECT p_name, p_points FROM player WHERE p_id = ?;
SELECT p_name, m_score, m_note FROM player, game WHERE p_id = m_p_id AND p_id = ?;
SELECT g_name, p_name FROM guild, player WHERE g_id = p_g_id AND g_id = ?;
INSERT INTO journal (j_id, j_g_id, j_note) VALUES (?, ?, ?);
"""


@dataclass(frozen=True)
class Target:
    """A listening server. `process` is None if this program did not start it. `pid` is None if it
    is not known; the memory of the server is not measured then."""

    host: str
    port: int
    pid: int | None
    process: subprocess.Popen[bytes] | None = None

    @property
    def ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None


def given(url: str, pid: int | None) -> Target:
    parts = urlsplit(url)
    return Target(parts.hostname or "127.0.0.1", parts.port or 8780, pid)


@contextlib.contextmanager
def started(folder: Path, address_space: int | None) -> Iterator[Target]:
    """Run `hornbeam serve` on a free port, with its data and its log in `folder`. `address_space`
    limits the bytes that the process may map, so that a lack of memory ends the server only."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(Path(sys.executable).with_name("hornbeam")), "serve", "--port", "0"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HORNBEAM_")}
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--data", str(folder / "data")],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    if address_space is not None:
        resource.prlimit(process.pid, resource.RLIMIT_AS, (address_space, address_space))
    try:
        assert process.stdout is not None
        words = process.stdout.readline().decode().split()
        assert "on" in words, f"The server did not start; see {folder / 'server.log'}."
        parts = urlsplit(words[words.index("on") + 1])
        yield Target(parts.hostname or "", parts.port or 0, process.pid, process)
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop the server with SIGTERM, and with SIGKILL if it does not end."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def ask(
    target: Target,
    path: str,
    body: Any = None,
    *,
    text: str | None = None,
    timeout_s: float = 60.0,
) -> Any:
    """Return the JSON answer to `body` (or to a CSV `text`); raises AssertionError for an error."""
    connection = http.client.HTTPConnection(target.host, target.port, timeout=timeout_s)
    sent = json.dumps(body).encode() if text is None else text.encode()
    kind = "application/json" if text is None else "text/csv"
    try:
        if body is None and text is None:
            connection.request("GET", path)
        else:
            connection.request("POST", path, sent, {"Content-Type": kind})
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status < 300, f"{path}: {answer.status} {content[:500]!r}"
        return json.loads(content)
    finally:
        connection.close()


def prepare(target: Target) -> None:
    """Apply the schema and load the rows, unless an earlier run has done so."""
    names = {relation["name"] for relation in ask(target, "/v1/schema")["relations"]}
    if "journal" in names:
        return
    plan = {"ddl": DDL, "workload": WORKLOAD, "roots": None}
    planned = ask(target, "/v1/schema/plan", plan)
    ask(target, "/v1/schema/apply", plan | {"plan_id": planned["plan_id"]})
    for relation, text in rows().items():
        ask(target, f"/v1/load/{relation}", text=text)
    deadline = time.monotonic() + START_S
    while any(view["state"] != "readable" for view in ask(target, "/v1/views?sizes=false")):
        assert time.monotonic() < deadline, "The views are not built in time."
        time.sleep(0.1)


def rows() -> dict[str, str]:
    """Return about 10 000 rows as CSV by relation; referenced relations come first."""
    rng = random.Random(1)
    guilds = [f"{n},guild {n},region {n % 7}" for n in range(GUILDS)]
    players = [
        f"{n},{rng.randrange(GUILDS)},player {n},{rng.randrange(10**6)},2024-01-{n % 28 + 1:02}"
        for n in range(PLAYERS)
    ]
    games = [
        f"{n},{rng.randrange(PLAYERS)},{rng.random() * 100:.3f},note {'x' * rng.randrange(50)}"
        for n in range(GAMES)
    ]
    scratch = [f"{n},text {n},{n}.5" for n in range(100)]
    return {
        "guild": "\n".join(["g_id,g_name,g_region", *guilds]),
        "player": "\n".join(["p_id,p_g_id,p_name,p_points,p_joined", *players]),
        "game": "\n".join(["m_id,m_p_id,m_score,m_note", *games]),
        "scratch": "\n".join(["s_id,s_text,s_number", *scratch]),
    }


def verified(target: Target) -> list[str]:
    """Return the output of `hornbeam verify` if it fails, or no line if all views are correct."""
    command = [str(Path(sys.executable).with_name("hornbeam")), "verify", "--json"]
    command += ["--url", f"hornbeam://{target.host}:{target.port}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    return [] if done.returncode == 0 else [(done.stdout + done.stderr)[-2_000:]]
