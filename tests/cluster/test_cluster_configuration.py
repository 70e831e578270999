"""The texts of settings files and command lines."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from hornbeam_server.cluster import configuration
from hornbeam_server.cluster.layout import EMPTY, Layout, Role, grown
from hornbeam_server.cluster.processes import Mark

FOLDER = Path("/srv/one & two")
MARK = Mark(FOLDER, "it").arguments


def made(**counts: int) -> Layout:
    roles = {Role(name.replace("_", "-")): count for name, count in counts.items()}
    return grown(EMPTY, roles, {}, lambda count: list(range(20_000, 20_000 + count)))


def settings(layout: Layout) -> dict[str, str]:
    texts = configuration.files(FOLDER, layout)
    return {
        entry.findtext("name", ""): entry.findtext("value", "")
        for name in ("core-site.xml", "hdfs-site.xml", "hbase-site.xml")
        for entry in ET.fromstring(texts[name])
    }


def command(layout: Layout, name: str) -> list[str]:
    java, jars = Path("/opt/java"), Path("/opt/jars")
    return configuration.command(java, jars, FOLDER, layout.named(name), MARK)


def test_settings_contain_the_addresses_of_other_processes():
    layout = made()
    found = settings(layout)
    name_node = layout.named("name-node").address
    assert found["fs.defaultFS"] == configuration.hdfs_url(layout) == f"hdfs://{name_node}"
    assert found["hbase.rootdir"] == f"hdfs://{name_node}/hbase"
    assert found["hbase.zookeeper.quorum"] == "127.0.0.1,127.0.0.1"
    assert found["hbase.zookeeper.property.clientPort"] == str(
        layout.named("zookeeper").ports["client"]
    )


def test_names_of_folders_are_escaped():
    assert settings(made())["hbase.tmp.dir"] == "/srv/one & two/data/tmp"
    assert settings(made())["dfs.namenode.name.dir"] == "file:///srv/one%20%26%20two/data/name"


def test_all_processes_listen_on_loopback_only():
    layout = made(data_node=2, region_server=2)
    lines = " ".join(word for each in layout.processes for word in command(layout, each.name))
    texts = [*configuration.files(FOLDER, layout).values(), lines]
    assert "0.0.0.0" not in " ".join(texts)
    addresses = {
        name: value
        for name, value in settings(layout).items()
        if re.search(r"(address|Address|bind-host|hostname)$", name)
    }
    assert len(addresses) >= 9
    assert {value.partition(":")[0] for value in addresses.values()} == {"127.0.0.1"}


def test_replication_follows_the_number_of_data_nodes():
    assert settings(made())["dfs.replication"] == "1"
    assert settings(made(data_node=3))["dfs.replication"] == "3"


def test_the_master_waits_for_all_region_servers():
    assert settings(made(region_server=3))["hbase.master.wait.on.regionservers.maxtostart"] == "3"


@pytest.mark.parametrize("name", [process.name for process in made().processes])
def test_command_lines_contain_the_mark_and_a_heap_limit(name):
    line = command(made(), name)
    assert line[0] == "/opt/java"
    assert line[1:3] == ["-Dhornbeam.cluster=/srv/one & two", "-Dhornbeam.process=it"]
    assert any(re.fullmatch(r"-Xmx\d+m", word) for word in line)
    assert line[line.index("-cp") + 1] == "/srv/one & two/conf:/opt/jars/*"


def test_an_option_replaces_the_heap_limit():
    process = made().named("region-server-1")
    options = (*MARK, "-Xmx4g")
    line = configuration.command(Path("j"), Path("l"), FOLDER, process, options)
    assert [word for word in line if word.startswith("-Xmx")] == ["-Xmx4g"]


def test_processes_of_a_role_differ_in_ports_and_folders():
    layout = made(data_node=2, region_server=2)
    first, second = command(layout, "data-node-1"), command(layout, "data-node-2")
    assert "dfs.datanode.data.dir=file:///srv/one%20%26%20two/data/data-node-1" in first
    assert len(set(second) - set(first)) == 4
    assert (
        len(set(command(layout, "region-server-1")) ^ set(command(layout, "region-server-2"))) == 4
    )


def test_formatting_uses_the_given_folder():
    into = FOLDER / "data" / "name.new"
    line = configuration.format_command(Path("j"), Path("l"), FOLDER, into, MARK)
    assert line[-5:] == [
        *("-D", f"dfs.namenode.name.dir={into.as_uri()}"),
        *("-format", "-force", "-nonInteractive"),
    ]
