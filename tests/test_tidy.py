"""The checks of code find uses of the machine and words that are replaced, and nothing else."""

from pathlib import Path

import pytest

from tests import plain_words, tidy

OFFENCES = {
    "import time": ["time"],
    "from time import monotonic": ["time"],
    "import socket, json": ["socket"],
    "import random\nrandom.random()": ["random"],
    "import datetime as dt\ndt.datetime.now()": ["datetime.now"],
    "from datetime import date\ndate.today()": ["date.today"],
    "import uuid\nuuid.uuid4()": ["uuid.uuid4"],
    "from uuid import uuid4": ["uuid.uuid4"],
    "import os\nos.urandom(8)": ["os.urandom"],
    "import random\nrandom.Random(7)": [],
    "import uuid\nuuid.UUID(bytes=b'')": [],
    "import datetime as dt\ndt.datetime.fromtimestamp(0)": [],
    "now = transaction.now": [],
}


@pytest.mark.parametrize("source", OFFENCES)
def test_uses_of_the_machine_are_found(source, tmp_path):
    file = tmp_path / "module.py"
    file.write_text(source)
    assert [line.split()[-1] for line in tidy.offences(file)] == OFFENCES[source]


def test_long_modules_are_found(tmp_path):
    file = tmp_path / "module.py"
    file.write_text("x = 1\n" * tidy.LONGEST)
    assert list(tidy.too_long(file)) == []
    file.write_text("x = 1\n" * (tidy.LONGEST + 1))
    assert len(list(tidy.too_long(file))) == 1


def test_the_packages_are_tidy(monkeypatch):
    monkeypatch.chdir(Path(__file__).parent.parent)
    assert tidy.main() == 0


def test_replaced_words_are_found(tmp_path):
    file = tmp_path / "module.py"
    file.write_text('"""Nobody is told: a teller reads."""\nfield["elsewhere"] = 1\n# elsewhere')
    found = [line.split(":")[1].split() for line in plain_words.offences(file)]
    assert found == [["1", "Nobody"], ["1", "told"], ["3", "elsewhere"]]


def test_no_replaced_word_is_in_use(monkeypatch):
    monkeypatch.chdir(Path(__file__).parent.parent)
    assert plain_words.main() == 0
