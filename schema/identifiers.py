"""Names as SQL identifiers."""

from __future__ import annotations


def identifier(name: str) -> str:
    """`name` as an SQL identifier: unquoted if every reader accepts that, otherwise quoted."""
    plain = name.isascii() and name.isidentifier() and name == name.lower()
    reserved = name in _WORDS
    return name if plain and not reserved else '"' + name.replace('"', '""') + '"'


_RESERVED = """
    all alter analyse analyze and anti any array as asc asof asymmetric at authorization between
    binary both by case cast check collate collation column columns concurrently constraint
    create cross current current_catalog current_date current_role current_schema current_time
    current_timestamp current_user date default deferrable desc describe distinct do drop else
    end except exclude exists false fetch for foreign freeze from full function generated glob
    grant group grouping having ilike in index initially inner insert intersect interval into is
    isnull join key lambda lateral leading left like limit localtime localtimestamp map natural
    not notnull null nulls offset on only or order outer overlaps pivot pivot_longer pivot_wider
    placing positional primary qualify references returning revoke right rollback row rows
    select semi session_user set show similar some struct summarize symmetric table tablesample
    then time timestamp to trailing true try_cast tuple union unique unpack unpivot user using
    values variadic verbose view when where window with
"""
_WORDS = frozenset(_RESERVED.split())
"""Words that DuckDB or PostgreSQL do not always read as names. Extra words do no harm."""
