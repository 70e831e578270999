"""Java, Maven and the jars: how they are found, reported as missing, and fetched once."""

from pathlib import Path

import pytest

from hornbeam_server.cluster import artefacts
from hornbeam_server.cluster.layout import Versions
from hornbeam_server.schema.errors import Unavailable
from tests.cluster import fake_java


@pytest.fixture(autouse=True)
def another_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the machine's Java and Maven, and use an empty cache."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


def maven(tmp_path: Path, script: str) -> None:
    """Install a program mvn that runs `script` with $INTO and appends its arguments to `calls`."""
    program = tmp_path / "bin" / "mvn"
    program.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> {tmp_path}/calls\n'
        'for word; do case "$word" in -DoutputDirectory=*) INTO="${word#*=}";; esac; done\n'
        f"{script}\n"
    )
    program.chmod(0o755)


GOOD = '/bin/mkdir "$INTO" && echo x > "$INTO/a.jar"'


def test_without_java_an_error_names_the_package():
    with pytest.raises(Unavailable, match="needs Java 17 to 23; there is none") as raised:
        artefacts.java()
    assert "apt install openjdk-17" in raised.value.cure


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "24.0.1"])
def test_a_java_that_hadoop_cannot_use_is_refused(tmp_path, monkeypatch, version):
    fake_java.install(tmp_path / "java", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    major = version.removeprefix("1.").partition(".")[0]
    with pytest.raises(Unavailable, match=rf"bin/java is Java {major}\."):
        artefacts.java()


def test_java_home_comes_before_the_path(tmp_path, monkeypatch):
    fake_java.install(tmp_path / "java", "21.0.1")
    monkeypatch.setenv("PATH", str(tmp_path / "java" / "bin"))
    assert artefacts.java() == tmp_path / "java" / "bin" / "java"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    with pytest.raises(Unavailable):
        artefacts.java()


def test_without_maven_an_error_names_the_package():
    with pytest.raises(Unavailable, match="needs Maven") as raised:
        artefacts.resolve()
    assert "apt install maven" in raised.value.cure


def test_jars_are_fetched_once_and_checked(tmp_path):
    maven(tmp_path, GOOD)
    folder = artefacts.resolve()
    assert [path.name for path in folder.iterdir()] == ["a.jar"]
    (tmp_path / "bin" / "mvn").unlink()
    assert artefacts.resolve() == folder
    (call,) = (tmp_path / "calls").read_text().splitlines()
    assert "--strict-checksums" in call
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_another_pom_has_another_folder(tmp_path, monkeypatch):
    before = artefacts.jars_folder()
    (tmp_path / "pom.xml").write_text("<project/>")
    monkeypatch.setattr(artefacts, "pom", lambda: tmp_path / "pom.xml")
    assert artefacts.jars_folder() != before


def test_other_versions_are_given_to_maven_and_have_another_folder(tmp_path):
    maven(tmp_path, GOOD)
    folder = artefacts.resolve(versions=Versions("2.5.8", "3.3.6"))
    assert folder == artefacts.jars_folder(versions=Versions("2.5.8", "3.3.6"))
    assert folder != artefacts.jars_folder()
    call = (tmp_path / "calls").read_text()
    for definition in (
        "-Dhbase.version=2.5.8-hadoop3",
        "-Dhbase.thrift.version=2.5.8",
        "-Dhadoop.version=3.3.6",
    ):
        assert f" {definition} " in call
        name = definition.removeprefix("-D").partition("=")[0]
        assert f"<{name}>" in artefacts.pom().read_text()


def test_the_default_versions_are_those_of_the_pom():
    text, default = artefacts.pom().read_text(), Versions()
    assert f"<hbase.version>{default.hbase}-hadoop3<" in text
    assert f"<hbase.thrift.version>{default.hbase}<" in text
    assert f"<hadoop.version>{default.hadoop}<" in text


def test_the_second_of_two_concurrent_fetches_uses_the_first(tmp_path):
    folder = artefacts.jars_folder()
    maven(tmp_path, f"{GOOD}; /bin/mkdir {folder} && echo y > {folder}/first.jar")
    assert artefacts.resolve() == folder
    assert [path.name for path in folder.iterdir()] == ["first.jar"]


def test_a_failed_resolution_leaves_no_files(tmp_path):
    maven(tmp_path, f"{GOOD}; printf '\\033[0m[ERROR] Unknown host repo.example.org\\n'; exit 1")
    with pytest.raises(
        Unavailable, match="could not fetch HBase and Hadoop: Unknown host"
    ) as raised:
        artefacts.resolve()
    assert "Maven Central" in raised.value.cure
    assert list(artefacts.cache().iterdir()) == []


def test_the_folder_of_a_child_pom_changes_with_the_parent(tmp_path, monkeypatch):
    maven(tmp_path, GOOD)
    other = tmp_path / "other.xml"
    other.write_text("<project/>")
    folder = artefacts.resolve(other)
    assert folder != artefacts.jars_folder()
    assert f"-f {other} dependency:copy-dependencies" in (tmp_path / "calls").read_text()
    (tmp_path / "pom.xml").write_text("<project/>")
    monkeypatch.setattr(artefacts, "pom", lambda: tmp_path / "pom.xml")
    assert artefacts.jars_folder(other) != folder
