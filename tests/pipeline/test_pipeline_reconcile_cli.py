"""`hornbeam reconcile`: its output, its HTML page, its exit codes and its errors."""

import json
import sys
from contextlib import nullcontext
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException

from hornbeam.cli import main
from hornbeam.cli.reconcile import seconds
from hornbeam.errors import InterfaceError
from hornbeam_server.pipeline.reconcile import command
from hornbeam_server.storage.ports import TOMBSTONE
from tests.pipeline.reconcile_world import cells, damaged, plant, served_shop, url_of
from tests.pipeline.spark_here import Here


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with served_shop(tmp_path_factory.mktemp("shop")) as served:
        yield served


@pytest.fixture
def run(monkeypatch, capfd, shop):
    """Run the command line and return its exit code, output and error output."""
    monkeypatch.setattr(
        command, "session", lambda _: nullcontext(SimpleNamespace(sparkContext=Here()))
    )

    def run_(*words, on=None):
        monkeypatch.setenv("HORNBEAM_URL", on or url_of(shop))
        monkeypatch.setattr(sys, "argv", ["hornbeam", "reconcile", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out, err

    return run_


def test_differences_are_shown_and_repaired(run, shop, tmp_path):
    view = "customer__orders"
    assert run(view)[0] == 0
    planted = damaged(shop, view, ["missing", "extra", "different", "undecodable", "strange key"])
    code, out, _ = run(view)
    assert code == 1
    assert f"{view}: different at (o_id) = (8): stored (8, name 1!" in out
    assert f"{view}: undecodable at (o_id) = (9): stored no row, expected (9, name 2" in out
    assert "5 differences" in out
    page = tmp_path / "report.html"
    code, out, _ = run(view, "--json", "--html", str(page))
    document = json.loads(out)
    (found,) = (item for item in document["checked"] if item["differences"])
    assert (code, found["name"], document["differences"]) == (1, view, 5)
    assert {fault: found[fault] for fault in planted} == planted
    assert [sample["fault"] for sample in found["samples"]] == [
        "missing", "different", "undecodable", "extra", "misplaced"
    ]  # fmt: skip
    assert "<title>5 differences</title>" in page.read_text()
    code, out, _ = run(view, "--repair")
    assert (code, "0 differences left, 5 repaired" in out) == (0, True)


def test_orphans_are_shown(run, shop):
    pen = cells(shop, "product")[0]
    plant(shop, "product", {pen.key: TOMBSTONE})
    code, out, _ = run()
    plant(shop, "product", {pen.key: pen.value})
    assert code == 1
    assert "line.line_l_p_id_fkey: no parent of the row at (l_o_id, l_no) = (0, 0): (0, 0, 0" in out


class Balance(HTMLParser):
    """Checks that every opened element is closed, in order."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, _):
        assert tag not in {"script", "link", "img"}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_shows_all_values_and_runs_no_script():
    counts = {"missing": 1, "extra": 0, "different": 0, "misplaced": 0, "undecodable": 0}
    sample = {"fault": "missing", "key": b"\xee", "stored": None, "expected": ["<script>", None]}
    item = {
        "name": "<b>", "kind": "view", "rows": 7, "left_out": 0, "repaired": 3, "key": ["k"],
        "as_of": None, "columns": ["k", "v"], "samples": [sample], **counts,
        "ranges": [{"from": None, "before": None, "rows": 7, **counts}],
    }  # fmt: skip
    text = command.page({"snapshot": 1, "differences": 1, "repaired": 3, "checked": [item]})
    parser = Balance()
    parser.feed(text)
    assert parser.open == []
    assert {"<b>", "ee", "<script>, NULL", "1 differences left, 3 repaired"} <= set(parser.text)
    later = command.page(
        {"snapshot": 1, "differences": 1, "repaired": 3, "checked": [item | {"as_of": 2_000}]}
    )
    assert "As of snapshot 2000 (1970-01-01 00:00:02+00:00)." in later
    assert later.count("As of snapshot") == 2


def test_each_error_has_its_exit_code(run, shop, monkeypatch):
    code, _, err = run("nothing")
    assert (code, "no readable view or index nothing" in err) == (3, True)
    assert run(on="hornbeam://127.0.0.1:1")[0] == 4
    assert run("--every", "soon")[0] == 2
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "pyspark", None)
        code, _, err = run()
        assert code == 2
        assert "pip install 'hornbeam-server[spark]'" in err


def test_an_executor_error_is_shown_without_its_trace(run, monkeypatch):
    def fail(*_, **__):
        line = "hornbeam_server.schema.errors.SnapshotTooOld: It is old."
        raise PySparkException(f"Job aborted\n  File x.py\n{line}")

    monkeypatch.setattr(command.job, "reconcile", fail)
    code, _, err = run()
    assert (code, err.strip()) == (3, "error: Spark could not do it: It is old.")


def test_missing_java_is_an_error(monkeypatch):
    from hornbeam_server.pipeline.spark import session
    from hornbeam_server.schema.errors import InvalidRequest

    monkeypatch.setattr(session.shutil, "which", lambda _: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(InvalidRequest, match="Java 17"), session.session():
        raise AssertionError("nothing to run in")


def test_the_command_repeats_until_it_is_interrupted(run, monkeypatch):
    pauses = []

    def pause(pause_s):
        pauses.append(pause_s)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("hornbeam.cli.reconcile.sleep", pause)
    code, out, _ = run("customer__orders", "--every", "30m")
    assert (code, pauses, out.count("0 differences")) == (130, [1800, 1800], 2)


@pytest.mark.parametrize(("text", "expected"), [("90s", 90), ("1.5m", 90), ("1 h", 3600)])
def test_times_are_parsed(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "5", "h", "0s", "-1m", "1w"])
def test_wrong_times_are_refused(text):
    with pytest.raises(InterfaceError, match="not a duration"):
        seconds(text)
