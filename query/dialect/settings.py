"""SHOW and current_setting: the settings that clients of PostgreSQL ask for. They have one value,
and do not change, except those that a connection keeps: the search path, the modes of transactions,
and settings without effect here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from sqlglot import exp

from hornbeam_server.query.dialect.session import POSTGRESQL, POSTGRESQL_NUMBER
from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.model import PUBLIC
from hornbeam_server.schema.sqltext import literal_sql

SETTINGS = {
    "bytea_output": ("hex", "The form of bytes as text."),
    "client_encoding": ("UTF8", "The encoding of text."),
    "DateStyle": ("ISO, MDY", "The form of dates as text."),
    "default_transaction_read_only": ("off", "Transactions may write."),
    "integer_datetimes": ("on", "Timestamps are integers of microseconds."),
    "IntervalStyle": ("postgres", "The form of intervals as text."),
    "lc_collate": ("C", "Text is ordered by code point."),
    "max_index_keys": ("32", "Columns of a key that drivers look for."),
    "search_path": (PUBLIC, "The schemas of names without a schema."),
    "server_encoding": ("UTF8", "The encoding of stored text."),
    "server_version": (POSTGRESQL, "The version of PostgreSQL whose SQL this is."),
    "server_version_num": (POSTGRESQL_NUMBER, "The same version as a number."),
    "standard_conforming_strings": ("on", "A backslash in '…' is a character."),
    "TimeZone": ("UTC", "The time zone of the session."),
}
"""Value and description of each setting, by its name as SHOW gives it."""
_LEVEL = "repeatable read"
OF_TRANSACTIONS = {
    "default_transaction_deferrable": ("off", "Reads never wait for a safe snapshot."),
    "default_transaction_isolation": (_LEVEL, "The isolation level of new transactions."),
    "transaction_deferrable": ("off", "Reads never wait for a safe snapshot."),
    "transaction_isolation": (_LEVEL, "The isolation level of this transaction."),
    "transaction_read_only": ("off", "This transaction may write."),
}
"""Modes of transactions: the defaults. A connection knows its own."""
_NONE = "It has no effect."
OF_SESSIONS = {
    "application_name": ("", _NONE),
    "check_function_bodies": ("on", _NONE),
    "client_min_messages": ("notice", _NONE),
    "default_table_access_method": ("heap", _NONE),
    "default_tablespace": ("", _NONE),
    "extra_float_digits": ("1", _NONE),
    "idle_in_transaction_session_timeout": ("0", _NONE),
    "lock_timeout": ("0", _NONE),
    "row_security": ("on", _NONE),
    "statement_timeout": ("0", "The time limit of a statement; 0 is that of the connection."),
    "xmloption": ("content", _NONE),
}
"""Settings that a connection keeps, since scripts for PostgreSQL set them: the defaults."""
_ALL = {**SETTINGS, **OF_TRANSACTIONS, **OF_SESSIONS}


def all_settings() -> Iterator[tuple[str, str, str]]:
    """The name, the value and the description of each setting, in the order of the names."""
    for name, (value, text) in sorted(_ALL.items(), key=lambda item: item[0].lower()):
        yield name, value, text


_VALUES = {name.lower(): (name, value) for name, (value, _) in _ALL.items()}
_SHOW = re.compile(r"SHOW\s+(?=\S)", re.IGNORECASE)
_SPELLINGS = {
    "time zone": "timezone",
    "names": "client_encoding",
    "transaction isolation level": "transaction_isolation",
}


def is_show(sql: str) -> bool:
    return _SHOW.match(sql.strip()) is not None


def show_as_query(sql: str, own: Mapping[str, str] = MappingProxyType({})) -> str:
    """The SELECT that SHOW stands for; any other statement unchanged. `own` are the values of
    settings that a session has changed. Raises Unsupported for a setting that does not exist."""
    text = sql.strip()
    found = _SHOW.match(text)
    if found is None:
        return sql
    name = " ".join(text[found.end() :].removesuffix(";").lower().split()).strip('"')
    if name == "all":
        rows = ", ".join(
            f"({literal_sql(each)}, {literal_sql(own.get(each, value))}, {literal_sql(text)})"
            for each, value, text in all_settings()
        )
        return f"SELECT * FROM (VALUES {rows}) AS settings (name, setting, description)"
    known, value = _found(_SPELLINGS.get(name, name))
    return f'SELECT {literal_sql(own.get(known, value))} AS "{known}"'


def _found(name: str) -> tuple[str, str]:
    """The name of a setting as SHOW gives it, and its value. Raises Unsupported."""
    if name.lower() not in _VALUES:
        raise Unsupported(
            f"There is no setting {name}.", cure=f"SHOW ALL lists them: {', '.join(SETTINGS)}."
        )
    return _VALUES[name.lower()]


def current_setting(call: exp.Anonymous) -> exp.Expr:
    """The value of a call with a name[, missing_ok[, value]]. `value` is that of the session,
    which a client and the search path write there. Raises Unsupported."""
    name, *more = call.expressions or [exp.Null()]
    name = name.this if isinstance(name, exp.Cast) else name
    texts = [each for each in (name, *more[1:]) if isinstance(each, exp.Literal) and each.is_string]
    if len(texts) != max(len(more), 1) or not all(isinstance(m, exp.Boolean) for m in more[:1]):
        raise Unsupported(
            "The arguments of current_setting are a text and TRUE or FALSE.",
            cure="Write current_setting('name', true), or send SHOW name.",
        )
    missing_ok = bool(more) and more[0].this is True
    if missing_ok and name.name.lower() not in _VALUES:
        return exp.cast(exp.Null(), exp.DType.TEXT)
    value = more[1].name if len(more) > 1 else _found(name.name)[1]
    return exp.cast(exp.Literal.string(value), exp.DType.TEXT)
