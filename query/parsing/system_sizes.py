"""Functions about bytes, such as pg_relation_size: they look them up in a live system relation
(`query/system/sizes.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from hornbeam_server.query.dialect.templates import value_call
from hornbeam_server.query.parsing.system_lookups import filled, is_oid, oid_of, written
from hornbeam_server.query.parsing.system_rights import require_database
from hornbeam_server.query.system.oids import DATABASE_OID
from hornbeam_server.query.system.sizes import SIZES
from hornbeam_server.schema.errors import TypeMismatch
from hornbeam_server.schema.model import DATABASE

_Arguments = Sequence[exp.Expr]
_SIZE = f"""
(SELECT {{}} FROM pg_catalog."{SIZES}" AS t WHERE t."oid of size" = given)
"""
_OWN, _OF_INDEXES = 't."own size"', 't."size of indexes"'
_FORKS = frozenset({"main", "fsm", "vm", "init"})


def _size(columns: str) -> Callable[[_Arguments], exp.Expr]:
    def build(given: _Arguments) -> exp.Expr:
        return filled(_SIZE.format(columns), {"given": oid_of("relation", given[0])})

    return build


def _relation_size(given: _Arguments) -> exp.Expr:
    """The rows of a relation are its only fork: the others have no bytes."""
    own = _size(_OWN)(given)
    if len(given) == 1:
        return own
    fork = given[1].unnest()
    if not isinstance(fork, exp.Literal) or fork.this not in _FORKS:
        raise TypeMismatch("Invalid fork name.", cure="Leave it out, or say main.")
    return own if fork.this == "main" else written("a * 0", own)


def _database_size(given: _Arguments) -> exp.Expr:
    size = filled(_SIZE.format(_OWN), {"given": exp.Literal.number(DATABASE_OID)})
    if is_oid(given[0]):
        return written(f"CASE WHEN a = {DATABASE_OID} THEN b END", given[0], size)
    require_database(given[0])
    return written(f"CASE WHEN a = '{DATABASE}' THEN b END", given[0], size)


SIZE_FUNCTIONS: dict[str, Callable[[_Arguments], exp.Expr]] = {
    "pg_relation_size": _relation_size,
    "pg_table_size": _size(_OWN),
    "pg_indexes_size": _size(_OF_INDEXES),
    "pg_total_relation_size": _size(f"{_OWN} + {_OF_INDEXES}"),
    "pg_database_size": _database_size,
    "pg_size_pretty": lambda given: value_call("size_pretty", given[0].copy()),
}
