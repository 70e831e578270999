"""A fixture that runs the command line in this process."""

from __future__ import annotations

import sys

import pytest

from hornbeam.cli import main
from tests.client.client_world import Run


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], url: str) -> Run:
    """A function that runs a command line; it returns exit code, output and error output."""

    def run_(*words: str, on: str = url) -> tuple[int, str, str]:
        monkeypatch.setenv("HORNBEAM_URL", on)
        monkeypatch.setattr(sys, "argv", ["hornbeam", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out, err

    return run_
