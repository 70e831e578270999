"""The two distributions, built and installed into empty environments as a user installs them."""

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
ALONE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
"""The environment of installed programs, which must not find the checkout."""
DATA = {".py", ".md", ".sql", ".thrift", ".html", ".css", ".js", ".xml", ".txt"}
"""Suffixes of the files that belong to the server's packages."""

EMBEDDED = """
import hornbeam
with hornbeam.connect("hornbeam:///shop") as db:
    cursor = db.cursor()
    cursor.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, name TEXT)")
    cursor.execute("INSERT INTO t VALUES (?, ?)", (1, "one"))
    db.commit()
    print(cursor.execute("SELECT name FROM t WHERE id = 1").fetchall())
"""
REFUSED = """
import hornbeam
try:
    hornbeam.connect("hornbeam:///shop")
except hornbeam.InterfaceError as error:
    print(error)
"""
SERVED = """
import hornbeam, sys
with hornbeam.connect(sys.argv[1]) as db:
    print(db.cursor().execute("SELECT 41 + 1").fetchall())
"""


COUNTED = """
import hornbeam, sys
with hornbeam.connect(sys.argv[1]) as db:
    print(db.cursor().execute("SELECT count(*) FROM country").fetchall())
"""


def run(*command, cwd=None):
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=ALONE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build the source archives of both distributions, and wheels from the archives."""
    folder = tmp_path_factory.mktemp("built")
    for source in (ROOT, ROOT / "client"):
        run(UV, "build", "--quiet", "--sdist", "--out-dir", folder, source)
    for archive in list(folder.glob("*.tar.gz")):
        run(UV, "build", "--quiet", "--wheel", "--out-dir", folder, archive)
    return folder


def environment(folder, *wheels):
    """Create an environment with only these wheels and their dependencies; return its Python."""
    run(UV, "venv", "--quiet", "--python", sys.executable, folder)
    python = folder / "bin/python"
    locked = ROOT / "requirements.lock"
    run(UV, "pip", "install", "--quiet", "--python", python, "--constraint", locked, *wheels)
    return python


@pytest.fixture(scope="module")
def everything(built, tmp_path_factory):
    return environment(tmp_path_factory.mktemp("both") / "env", *built.glob("*.whl"))


@pytest.fixture(scope="module")
def client_only(built, tmp_path_factory):
    (wheel,) = built.glob("hornbeam-*.whl")
    return environment(tmp_path_factory.mktemp("client") / "env", wheel)


def names(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return [n for n in archive.namelist() if ".dist-info/" not in n]


def tracked(*folders):
    listed = run("git", "-C", ROOT, "ls-files", *folders).split()
    return {name for name in listed if Path(name).suffix in DATA}


def test_each_wheel_has_one_package_and_all_its_files(built):
    (server,) = built.glob("hornbeam_server-*.whl")
    (client,) = built.glob("hornbeam-*.whl")
    packages = [link.name for link in (ROOT / "src/hornbeam_server").iterdir() if link.is_symlink()]
    wanted = {f"hornbeam_server/{name}" for name in tracked(*packages)}
    wanted.add("hornbeam_server/__init__.py")
    assert len(packages) >= 9
    assert wanted - set(names(server)) == set()
    assert {name.split("/")[0] for name in names(server)} == {"hornbeam_server"}
    assert {name.split("/")[0] for name in names(client)} == {"hornbeam"}
    assert {name.removeprefix("client/") for name in tracked("client/hornbeam")} <= set(
        names(client)
    )


def test_the_source_archives_contain_no_tests_and_no_benchmarks(built):
    for archive in built.glob("*.tar.gz"):
        with tarfile.open(archive) as files:
            folders = {name.split("/")[1] for name in files.getnames() if "/" in name}
        assert not folders & {"tests", "bench"}


def test_an_application_may_have_modules_of_the_same_names(everything, tmp_path):
    """For example, `api.py` is a common name of a FastAPI application's main module."""
    for name in ("api", "schema", "storage", "cluster", "txlayer", "node"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('a module of the application')\n")
    (tmp_path / "query").mkdir()
    (tmp_path / "query/__init__.py").touch()
    (tmp_path / "main.py").write_text(EMBEDDED)
    assert run(everything, "main.py", cwd=tmp_path) == "[('one',)]\n"


def test_a_client_alone_reads_from_a_server(everything, client_only, tmp_path):
    command = [everything.with_name("hornbeam"), "serve", "--data", "data", "--port", "0"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=ALONE, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            url = next(word for word in server.stdout.readline().split() if "://" in word)
            client = url.replace("http://", "hornbeam://")
            assert run(client_only, "-c", SERVED, client, cwd=tmp_path) == "[(42,)]\n"
            said = run(client_only.with_name("hornbeam"), "sql", "--url", client, "SELECT 6 * 7")
            assert "42" in said
        finally:
            server.terminate()


def test_the_demo_runs_and_is_served_from_the_wheels(everything, tmp_path):
    small = ("--customers=20", "--items=20", "--rounds=1", "--seconds=0.5", "--sessions=2")
    command = [everything.with_name("hornbeam-server"), "demo", "--data=demo", *small, "--serve"]
    alone = ALONE | {"HORNBEAM_PORT": "0"}
    with subprocess.Popen(
        command, cwd=tmp_path, env=alone, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            story = ""
            while not (found := re.search(r"listens on http://(\S+)", story)):
                line = server.stdout.readline()
                assert line, story
                story += line
            assert "0 differences" in story
            served = run(everything, "-c", COUNTED, f"hornbeam://{found[1]}", cwd=tmp_path)
            assert served == "[(92,)]\n"
        finally:
            server.terminate()
    report = json.loads((tmp_path / "demo/report.json").read_text())
    assert (report["differences"], report["errors"]) == (0, [])


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, "is needed and is not installed.\npip install hornbeam-server"),
        ({"hornbeam_server/__init__.py": ""}, "cannot be loaded: No module named"),
    ],
)
def test_without_the_server_an_embedded_connection_names_the_cause(
    client_only, tmp_path, files, reason
):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    (tmp_path / "main.py").write_text(REFUSED)
    assert reason in run(client_only, "main.py", cwd=tmp_path)


def test_a_dependency_hidden_by_a_file_of_the_application_is_named(everything, tmp_path):
    (tmp_path / "sqlglot.py").touch()
    (tmp_path / "main.py").write_text(REFUSED)
    said = run(everything, "main.py", cwd=tmp_path)
    assert f"The module sqlglot comes from {tmp_path / 'sqlglot.py'}. If that is your own" in said
