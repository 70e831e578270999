"""A stand-in for Java, so that tests start the processes of a cluster quickly.

It answers -version and formats a file system. Otherwise it behaves as the file `behaviour` in its
JAVA_HOME states for the process: it sleeps (the default), dies, aborts as HBase does, or ignores
SIGTERM (`stubborn`).
"""

from __future__ import annotations

import signal
import stat
import sys
import time
from pathlib import Path
from urllib.parse import unquote, urlparse


def install(home: Path, version: str = "17.0.15") -> Path:
    """Make `home` a JAVA_HOME; return the path of the file that sets how processes behave."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parents[2])!r})\n"
        "from tests.cluster import fake_java\n"
        f"sys.exit(fake_java.main(fake_java.Path({str(home)!r}), {version!r}, sys.argv[1:]))\n"
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return home / "behaviour"


def main(home: Path, version: str, words: list[str]) -> int:
    if words == ["-version"]:
        print(f'openjdk version "{version}" 2025-04-15', file=sys.stderr)
        return 0
    if "-format" in words:
        (name_folder,) = (word for word in words if word.startswith("dfs.namenode.name.dir="))
        current = Path(unquote(urlparse(name_folder.partition("=")[2]).path)) / "current"
        current.mkdir(parents=True)
        (current / "VERSION").touch()
        return 0
    prefix = "-Dhornbeam.process="
    (name,) = (word.removeprefix(prefix) for word in words if word.startswith(prefix))
    return behave(home / "behaviour", name)


def behave(behaviour: Path, name: str) -> int:
    of = (
        dict(line.split() for line in behaviour.read_text().splitlines())
        if behaviour.exists()
        else {}
    )
    if of.get(name) == "die":
        print("line 1\nFATAL: no room left", flush=True)
        return 1
    if of.get(name) == "abort":
        print("ERROR ***** ABORTING region server: no session *****\nat once", flush=True)
        print("\n".join(f"line {number}" for number in range(100)), flush=True)
        return 1
    if of.get(name) == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ready", flush=True)
    time.sleep(120)
    return 0
