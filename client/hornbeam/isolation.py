"""Isolation levels, and statements that begin and end transactions, with PostgreSQL's syntax."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from hornbeam.errors import InterfaceError, NotSupportedError, ProgrammingError
from hornbeam.statements import name_of, tokens

LEVELS = ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
DEFAULT_LEVEL = "REPEATABLE READ"


def level_of(name: str) -> str:
    """The level with this name, in any case, with blanks, `_` or `-` between its words. READ
    UNCOMMITTED is READ COMMITTED, as in PostgreSQL. Raises InterfaceError."""
    level = " ".join(name.upper().replace("_", " ").replace("-", " ").split())
    if level not in LEVELS:
        raise InterfaceError(f"{name!r} is no isolation level. Levels are: {', '.join(LEVELS)}.")
    return "READ COMMITTED" if level == "READ UNCOMMITTED" else level


class Action(enum.Enum):
    """What a statement does with the transaction."""

    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    ROLLBACK_TO = "rollback to"
    RELEASE = "release"
    SET = "set transaction"
    SET_SESSION = "set session characteristics"


ENDING = frozenset({Action.COMMIT, Action.ROLLBACK, Action.ROLLBACK_TO})
"""The statements that an aborted transaction carries out."""


class Control(NamedTuple):
    """A statement that controls transactions: `level`, `read_only` and `deferrable` are None if it
    does not name them. `name` is that of a savepoint."""

    action: Action
    level: str | None = None
    read_only: bool | None = None
    name: str = ""
    deferrable: bool | None = None


class Modes:
    """The modes of one connection's transactions: of the open one, and of those to come."""

    def __init__(self, level: str) -> None:
        """`level`: the level of transactions that name no other, and after `reset`."""
        self._first_level = level
        self.reset()

    def reset(self) -> None:
        """Forget the modes that statements have set."""
        self.session_level = self._first_level
        self.session_read_only = False
        self._session_deferrable = False
        self.end()

    def end(self) -> None:
        """The open transaction ends."""
        self.block = False
        """Has BEGIN opened it on a connection in autocommit?"""
        self._level: str | None = None
        self._read_only: bool | None = None
        self._deferrable: bool | None = None
        self._before: dict[str, bool | None] = {}
        """Whether the transaction might only read before each savepoint."""

    def savepoint(self, name: str) -> None:
        self._before.pop(name, None)
        self._before[name] = self._read_only

    def rollback_to(self, name: str) -> None:
        """Take back what was set since a savepoint, which stays."""
        self.release(name)
        self.savepoint(name)

    def release(self, name: str) -> None:
        """Take back what was set since a savepoint, as PostgreSQL does, and forget it and the later
        ones."""
        names = list(self._before)
        self._read_only = self._before[name]
        for each in names[names.index(name) :]:
            del self._before[each]

    @property
    def level(self) -> str:
        """The level of the open transaction."""
        return self._level or self.session_level

    @property
    def read_only(self) -> bool:
        """May the open transaction only read?"""
        return self.session_read_only if self._read_only is None else self._read_only

    @property
    def _deferrable_now(self) -> bool:
        return self._session_deferrable if self._deferrable is None else self._deferrable

    @property
    def serializable(self) -> bool:
        return self.level == "SERIALIZABLE"

    @property
    def values(self) -> dict[str, str]:
        """The modes as settings, by their names."""
        return {
            "transaction_isolation": self.level.lower(),
            "default_transaction_isolation": self.session_level.lower(),
            "transaction_read_only": _ON[self.read_only],
            "default_transaction_read_only": _ON[self.session_read_only],
            "transaction_deferrable": _ON[self._deferrable_now],
            "default_transaction_deferrable": _ON[self._session_deferrable],
        }

    def controlled(self, name: str, value: str) -> Control | None:
        """The meaning of SET name = value if it is one of these modes. Raises InterfaceError for a
        value that it does not have."""
        action = Action.SET_SESSION if name.startswith("default_") else Action.SET
        default = value.lower() == "default"
        match name.removeprefix("default_"):
            case "transaction_isolation":
                return Control(action, self._first_level if default else level_of(value))
            case "transaction_read_only" | "transaction_deferrable" as mode:
                if not default and value.lower() not in _BOOLEANS:
                    raise InterfaceError(f"{name} is on or off, not {value!r}.")
                set_ = _BOOLEANS.get(value.lower(), False)
                if mode == "transaction_deferrable":
                    return Control(action, deferrable=set_)
                return Control(action, read_only=set_)
        return None

    def sets_late(self, control: Control) -> bool:
        """Does a statement name a mode that holds for all statements of the open transaction? As in
        PostgreSQL, READ ONLY may come later."""
        of_all = control.level is not None or control.deferrable is not None
        return of_all or (control.read_only is False and self.read_only)

    def set(self, control: Control) -> None:
        """Take the modes that a statement names."""
        if control.action is Action.SET_SESSION:
            self.session_level = control.level or self.session_level
            if control.read_only is not None:
                self.session_read_only = control.read_only
            if control.deferrable is not None:
                self._session_deferrable = control.deferrable
            return
        self._level = control.level or self._level
        if control.read_only is not None:
            self._read_only = control.read_only
        if control.deferrable is not None:
            self._deferrable = control.deferrable


_ON = {True: "on", False: "off"}
_BOOLEANS = {
    **dict.fromkeys(("on", "true", "yes", "1"), True),
    **dict.fromkeys(("off", "false", "no", "0"), False),
}
_PLAIN: dict[tuple[str, ...], Action] = {
    ("commit",): Action.COMMIT,
    ("end",): Action.COMMIT,
    ("rollback",): Action.ROLLBACK,
    ("abort",): Action.ROLLBACK,
}
_WITH_MODES = {
    ("begin",): Action.BEGIN,
    ("start", "transaction"): Action.BEGIN,
    ("set", "transaction"): Action.SET,
    ("set", "session", "characteristics", "as", "transaction"): Action.SET_SESSION,
}
_WITH_NAME = {
    ("savepoint",): Action.SAVEPOINT,
    ("rollback", "to"): Action.ROLLBACK_TO,
    ("release",): Action.RELEASE,
}


def control_of(sql: str) -> Control:
    """The meaning of a statement that controls transactions. Raises ProgrammingError for other
    statements, NotSupportedError for clauses that are not supported."""
    words = [token.text for token in tokens(sql) if token.text != ";"]
    lower = [word.lower() for word in words]
    if lower[-3:] == ["and", "no", "chain"]:
        lower = lower[:-3]
    # WORK and TRANSACTION say nothing more behind these words.
    if len(lower) > 1 and lower[1] in {"work", "transaction"} and lower[0] not in {"start", "set"}:
        del lower[1], words[1]
    if (action := _PLAIN.get(tuple(lower))) is not None:
        return Control(action)
    if lower[-2:] == ["and", "chain"]:
        raise NotSupportedError("AND CHAIN is not supported: begin the next transaction.")
    for start, action in _WITH_NAME.items():
        rest = words[len(start) :]
        if tuple(lower[: len(start)]) == start and rest:
            if rest[0].lower() == "savepoint" and len(rest) == 2:
                rest = rest[1:]
            if len(rest) == 1:
                return Control(action, name=name_of(rest[0]))
    for start, action in _WITH_MODES.items():
        if tuple(lower[: len(start)]) == start:
            return _modes(action, lower[len(start) :], sql)
    raise ProgrammingError(f"{sql.strip()!r} is no statement about transactions that is known.")


def _modes(action: Action, words: Sequence[str], sql: str) -> Control:
    """The modes of BEGIN and SET TRANSACTION: later ones replace earlier ones."""
    level: str | None = None
    read_only: bool | None = None
    deferrable: bool | None = None
    left = [word for word in words if word != ","]
    while left:
        if left[:2] == ["isolation", "level"]:
            size = 3 if left[2:3] == ["serializable"] else 4
            level, left = level_of(" ".join(left[2:size])), left[size:]
        elif left[:2] in (["read", "only"], ["read", "write"]):
            read_only, left = left[1] == "only", left[2:]
        elif left[0] == "deferrable":  # reads never wait for a safe snapshot
            deferrable, left = True, left[1:]
        elif left[:2] == ["not", "deferrable"]:
            deferrable, left = False, left[2:]
        elif left[0] == "snapshot":
            raise NotSupportedError("SET TRANSACTION SNAPSHOT is not supported: pass a bookmark.")
        else:
            raise ProgrammingError(f"{sql.strip()!r}: {' '.join(left)} is not known.")
    if not words and action is not Action.BEGIN:
        raise ProgrammingError(f"{sql.strip()!r} names no mode, such as ISOLATION LEVEL.")
    return Control(action, level, read_only, deferrable=deferrable)
