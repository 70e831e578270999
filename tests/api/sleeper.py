"""Work for the processes of a supervisor. This module imports little, because each process imports
it when it starts."""

from __future__ import annotations

import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path

FINAL = 78


class Sleeper:
    """Writes its process id into a file, says that it works, and waits for a signal or the end of
    the supervisor."""

    def __init__(self, folder: Path, *, codes: tuple[int, ...] = ()) -> None:
        self.folder = folder
        self.codes = codes
        """Exit codes of the first processes of worker 1, which end by themselves."""

    def __call__(self, number: int, supervisor: Connection) -> None:
        signal.signal(signal.SIGHUP, lambda *_: self.note(number, "renewed"))
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        begun = len(self.processes(number))
        self.note(number, str(os.getpid()))
        if number == 1 and begun < len(self.codes):
            os._exit(self.codes[begun])
        supervisor.send(None)
        supervisor.poll(None)
        self.note(number, "alone")

    def note(self, number: int, text: str) -> None:
        with (self.folder / str(number)).open("a") as file:
            file.write(f"{text}\n")

    def notes(self, number: int) -> list[str]:
        file = self.folder / str(number)
        return file.read_text().split() if file.exists() else []

    def processes(self, number: int) -> list[int]:
        return [int(note) for note in self.notes(number) if note.isdecimal()]
