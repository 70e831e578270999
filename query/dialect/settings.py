"""SHOW: the settings that clients of PostgreSQL ask for. They have one value, and do not
change, except the search path."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from hornbeam_server.query.dialect.session import POSTGRESQL
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
    "search_path": (PUBLIC, "The schemas of names without a schema."),
    "server_encoding": ("UTF8", "The encoding of stored text."),
    "server_version": (POSTGRESQL, "The version of PostgreSQL whose SQL this is."),
    "standard_conforming_strings": ("on", "A backslash in '…' is a character."),
    "TimeZone": ("UTC", "The time zone of the session."),
}
"""Value and description of each setting, by its name as SHOW gives it."""
OF_TRANSACTIONS = {
    "default_transaction_isolation": "repeatable read",
    "transaction_deferrable": "off",
    "transaction_isolation": "repeatable read",
    "transaction_read_only": "off",
}
"""Modes of transactions, by the same names: the defaults. A connection knows its own, and answers
by itself, so SHOW ALL does not list them."""
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
            for each, (value, text) in SETTINGS.items()
        )
        return f"SELECT * FROM (VALUES {rows}) AS settings (name, setting, description)"
    values = {each: value for each, (value, _) in SETTINGS.items()} | OF_TRANSACTIONS
    by_name = {each.lower(): (each, own.get(each, value)) for each, value in values.items()}
    known = by_name.get(_SPELLINGS.get(name, name))
    if known is None:
        raise Unsupported(
            f"There is no setting {name}.", cure=f"SHOW ALL lists them: {', '.join(SETTINGS)}."
        )
    return f'SELECT {literal_sql(known[1])} AS "{known[0]}"'
