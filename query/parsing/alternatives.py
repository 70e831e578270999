"""INSERT OR IGNORE and INSERT OR REPLACE, spelled as ON CONFLICT."""

from __future__ import annotations

from sqlglot import exp

from hornbeam_server.schema.errors import Unsupported
from hornbeam_server.schema.model import Relation


def spell_out(tree: exp.Insert, relation: Relation) -> None:
    """Replace OR IGNORE and OR REPLACE of an INSERT by the ON CONFLICT that means the same. Raises
    Unsupported for OR ABORT and its like, which the caller's transaction decides."""
    alternative = tree.args.get("alternative")
    if alternative is None:
        return
    known = {"IGNORE": _ignored, "REPLACE": _replaced}
    if alternative.upper() not in known:
        raise Unsupported(
            f"INSERT OR {alternative.upper()} is not supported.",
            cure="Leave it out: a statement that breaks a constraint fails as a whole.",
        )
    if tree.args.get("conflict") is not None:
        raise Unsupported(
            f"INSERT OR {alternative.upper()} with ON CONFLICT is not supported.",
            cure="Use one of the two.",
        )
    tree.set("alternative", None)
    tree.set("conflict", known[alternative.upper()](relation))


def _ignored(_: Relation) -> exp.OnConflict:
    return exp.OnConflict(action=exp.var("DO NOTHING"), expressions=[])


def _replaced(relation: Relation) -> exp.OnConflict | None:
    """DO UPDATE of all columns, also of those that the INSERT leaves out: they take their defaults,
    as in a row that is deleted and inserted. A GENERATED ALWAYS column keeps its number. None
    without a primary key, since no row is in conflict then."""
    if not relation.declared_key:
        return None
    keys = [exp.Ordered(this=_column(name)) for name in relation.primary_key]
    always = {
        c.name for c in relation.columns if c.default is not None and c.default.identity.always
    }
    always |= {column.name for column in relation.generated}
    names = [name for name in relation.visible_names if name not in relation.primary_key]
    names = [name for name in names or relation.visible_names if name not in always]
    assigned = [exp.EQ(this=_column(name), expression=_column(name, "excluded")) for name in names]
    return exp.OnConflict(action=exp.var("DO UPDATE"), conflict_keys=keys, expressions=assigned)


def _column(name: str, table: str | None = None) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table)
