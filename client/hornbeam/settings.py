"""Settings that a session keeps: those without effect, which scripts for PostgreSQL set, and the
time limit of statements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from hornbeam.errors import InterfaceError
from hornbeam.statements import Token, cached_for_statements, separated, tokens

WITHOUT_EFFECT = frozenset(
    {
        *("application_name", "check_function_bodies", "client_min_messages", "extra_float_digits"),
        *("default_table_access_method", "default_tablespace", "row_security", "xmloption"),
        *("idle_in_transaction_session_timeout", "lock_timeout"),
    }
)
TIME_LIMIT = "statement_timeout"
MAX_STALENESS = "hornbeam.max_staleness"
"""The maximum age of deferred views that answer; 0: that of the connection."""
OWN_WRITES = "hornbeam.views_show_own_writes"
"""on: queries that name live or deferred views wait until these show the session's last commit."""
CONSISTENCY = "hornbeam.consistency"
"""tentative: live and deferred views are read at the newest snapshot, not as of a batch."""
SNAPSHOT, TENTATIVE = "snapshot", "tentative"
VIEW_WAIT_MS = 5_000
"""A node waits so long for a batch of the views that a query names; then the client asks again."""
_DEFAULTS = {MAX_STALENESS: "0", OWN_WRITES: "off", CONSISTENCY: SNAPSHOT}
_TIMES = frozenset({TIME_LIMIT, MAX_STALENESS})
_FLAGS = {
    **dict.fromkeys(("on", "true", "yes", "1"), "on"),
    **dict.fromkeys(("off", "false", "no", "0"), "off"),
}
_UNITS = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1_000, "ms": 1}
_TIME = re.compile(r"\s*(\d+)\s*(ms|s|min|h|d)?\s*")
_SHOWN_NAMES = {
    "time_zone": "timezone",
    "names": "client_encoding",
    "transaction_isolation_level": "transaction_isolation",
}


class Settings:
    """The values that SET has given. As in PostgreSQL, a value that a transaction sets holds after
    its commit, and is withdrawn with it; SET LOCAL holds to the end of the transaction."""

    def __init__(self, consistency: str = SNAPSHOT) -> None:
        """`consistency`: that of the connection, which is the default of the setting."""
        self._defaults = _DEFAULTS | {CONSISTENCY: consistency_of(consistency)}
        self._session: dict[str, str] = {}
        self._committed: dict[str, str] = {}
        self._local: dict[str, str] = {}
        self.values: Mapping[str, str] = self._defaults
        """The values by their names; a setting without one has its default at the server."""

    @property
    def time_limit_ms(self) -> int | None:
        """The time limit of statements; None for that of the connection."""
        return _milliseconds(TIME_LIMIT, self._value(TIME_LIMIT)) or None

    @property
    def max_staleness_ms(self) -> int | None:
        """The maximum age of deferred views; None for that of the connection."""
        return _milliseconds(MAX_STALENESS, self._value(MAX_STALENESS)) or None

    @property
    def views_show_own_writes(self) -> bool:
        return self._value(OWN_WRITES) == "on"

    @property
    def consistency(self) -> str:
        return self._value(CONSISTENCY)

    def _value(self, name: str) -> str:
        return self.values.get(name, "0")

    def _changed(self) -> None:
        self.values = {**self._defaults, **self._session, **self._local}

    def set(self, name: str, value: str, *, local: bool) -> bool:
        """Set a setting, or give it its default. Returns False for one that is not kept here.
        Raises InterfaceError for a value that it cannot have."""
        if name not in WITHOUT_EFFECT | _TIMES | {OWN_WRITES, CONSISTENCY}:
            return False
        if value.lower() != "default":
            value = _checked(name, value)
        kept = self._local if local else self._session
        if value.lower() == "default":
            kept.pop(name, None)
        else:
            kept[name] = value
        if not local:
            self._local.pop(name, None)
        self._changed()
        return True

    def reset(self) -> None:
        """Give all settings their defaults."""
        self._session, self._local = {}, {}
        self._changed()

    def commit(self) -> None:
        """The transaction ends, and what it has set holds."""
        self._committed, self._local = dict(self._session), {}
        self._changed()

    def rollback(self) -> None:
        """The transaction ends, and what it has set is withdrawn."""
        self._session, self._local = dict(self._committed), {}
        self._changed()


def _checked(name: str, value: str) -> str:
    """The value of a setting as it is kept. Raises InterfaceError for one that it cannot have."""
    if name in _TIMES:
        return _shown_time(_milliseconds(name, value))
    if name == OWN_WRITES:
        return _flag(name, value)
    return consistency_of(value) if name == CONSISTENCY else value


def consistency_of(text: str) -> str:
    """The consistency of queries. Raises InterfaceError for an unknown one."""
    if text.lower() not in {SNAPSHOT, TENTATIVE}:
        raise InterfaceError(
            f"{CONSISTENCY} is {SNAPSHOT} or {TENTATIVE}, not {text!r}.\n"
            f"  Write SET {CONSISTENCY} = {TENTATIVE}."
        )
    return text.lower()


def _flag(name: str, text: str) -> str:
    found = _FLAGS.get(text.lower())
    if found is None:
        raise InterfaceError(f"{name} is on or off, not {text!r}.\n  Write SET {name} = on.")
    return found


@lru_cache(maxsize=256)
def _milliseconds(name: str, text: str) -> int:
    found = _TIME.fullmatch(text)
    if found is None:
        raise InterfaceError(
            f"{name} is a number of milliseconds, or has a unit, not {text!r}.\n"
            f"  Write SET {name} = '5s'. Units are {', '.join(_UNITS)}."
        )
    return int(found[1]) * _UNITS[found[2] or "ms"]


def _shown_time(milliseconds: int) -> str:
    """The time in its largest unit, as PostgreSQL shows it."""
    unit = next(unit for unit, size in _UNITS.items() if milliseconds % size == 0)
    return f"{milliseconds // _UNITS[unit]}{unit}" if milliseconds else "0"


def name_shown(sql: str) -> str:
    """The name of the setting that SHOW asks for, "all", or "" for other statements."""
    words = [token.text.lower() for token in tokens(sql) if token.text != ";"]
    if words[:1] != ["show"]:
        return ""
    name = "_".join(words[1:]).replace("_._", ".").strip('"')
    return _SHOWN_NAMES.get(name, name)


@cached_for_statements
def asks_for_settings(sql: str) -> bool:
    """Whether the statement may call current_setting."""
    return "current_setting" in sql.lower()


def quoted_text(value: str) -> str:
    """The value as a literal."""
    return "'" + value.replace("'", "''") + "'"


def with_own_settings(sql: str, own: Mapping[str, str]) -> str:
    """The statement in which calls of current_setting have the value of the session, if it has one,
    as their third argument."""
    parts, done = [], 0
    for place, argument in _own_arguments(list(tokens(sql)), own):
        parts += [sql[done:place], argument]
        done = place
    return "".join([*parts, sql[done:]])


def _own_arguments(found: list[Token], own: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """The places behind the arguments of current_setting, and the arguments to write there."""
    words = [token.text.lower() for token in found]
    for i, token in enumerate(found):
        if words[i : i + 2] != ["current_setting", "("]:
            continue
        closing = (")", token.depth)
        end = next((each for each in found[i:] if (each.text, each.depth) == closing), None)
        if end is None:
            return
        arguments = separated(found[i + 2 : found.index(end)], token.depth + 1)
        first, *rest = [each.text for each in arguments[0]] or [""]
        written = first.startswith("'") and (not rest or rest[0].startswith(":"))  # 'name'::TEXT
        value = own.get(first.strip("'").lower()) if written else None
        if value is not None:
            more = ", false" if len(arguments) == 1 else ""
            yield end.start, f"{more}, {quoted_text(value)}"


def resets_all(sql: str) -> bool:
    """Whether the statement is RESET ALL."""
    return [token.text.lower() for token in tokens(sql)][:2] == ["reset", "all"]


def sets_constraints(sql: str) -> bool:
    """Whether the statement is SET CONSTRAINTS … DEFERRED or IMMEDIATE. It changes nothing: each
    statement of a transaction is checked when it is sent, and all of them at the commit."""
    words = [token.text.lower() for token in tokens(sql) if token.text != ";"]
    ends = words[-1:] in (["deferred"], ["immediate"])
    return words[:2] == ["set", "constraints"] and len(words) > 3 and ends


def set_by_function(sql: str) -> tuple[str, str] | None:
    """The SET that SELECT [pg_catalog.]set_config('…', '…', is_local) stands for, and the value;
    None for other statements."""
    words = [token.text for token in tokens(sql) if token.text != ";"]
    lower = [word.lower() for word in words]
    if lower[1:3] == ["pg_catalog", "."]:
        del words[1:3], lower[1:3]
    if lower[:3] != ["select", "set_config", "("] or len(words) != 9 or words[8] != ")":
        return None
    name, value, local = words[3], words[5], lower[7]
    if not (name[0] == value[0] == "'") or local not in {"true", "false"}:
        return None
    name, text = name[1:-1].lower(), value[1:-1].replace("''", "'")
    if name == "search_path":  # a list of names
        value = text or "''"
    return f"SET {'LOCAL ' if local == 'true' else ''}{name} TO {value}", text
