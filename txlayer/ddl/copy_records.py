"""The changes of the catalog for a copy of a relation (`schema/copies.py`). Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from hornbeam_server.schema import stages
from hornbeam_server.schema.catalog import Catalog, Index, State
from hornbeam_server.schema.commented import with_kept_comments
from hornbeam_server.schema.copies import Copy
from hornbeam_server.schema.counters import SEQUENCE
from hornbeam_server.schema.errors import BeingLoaded, StalePlan
from hornbeam_server.schema.model import KeyPart


def begun(planned: Catalog, current: Catalog) -> Catalog:
    """The next catalog: `current` with the copies that `planned` needs, which are to be filled. A
    relation in whose copy rows could share a key gets a UNIQUE index on it until then. Raises
    BeingLoaded while an initial load, or another change of the schema, is under way."""
    if current.copies:
        raise being_copied(current)
    if current.load is not None:
        raise BeingLoaded(
            f"{', '.join(current.load.relations)}: a load is under way.",
            cure="Wait until it has ended, or give it up: hornbeam load --cancel.",
        )

    def may_share_key(copy: Copy) -> bool:
        return copy.may_share_key(current.schema.relation(copy.relation))

    indexes = tuple(_key_index(copy) for copy in planned.copies if may_share_key(copy))
    names = (*(copy.name for copy in planned.copies), *(index.name for index in indexes))
    return replace(
        current,
        version=current.version + 1,
        copies=planned.copies,
        indexes=(*current.indexes, *indexes),
        states=(*current.states, *((name, State.BUILDING) for name in names)),
    )


def _key_index(copy: Copy) -> Index:
    columns = tuple(map(KeyPart, copy.target.primary_key))
    reason = f"no two rows of {copy.relation} have the same new key"
    return Index(copy.key_index, copy.relation, columns, unique=True, reason=reason)


def arrived(planned: Catalog, current: Catalog) -> Catalog:
    """`planned`, in which each copied relation has the table of its copy; after a second stage,
    nothing of the first one is left. Raises StalePlan unless `current` has all of these copies,
    filled."""
    names = [copy.name for copy in planned.copies]
    if planned.copies != current.copies or not all(map(current.readable, names)):
        raise StalePlan(
            "The copies of relations are not those that the plan needs; nothing is changed.",
            cure="Plan again, look at the plan, and apply it.",
        )
    numbers = dict(planned.incarnations)
    for copy in current.copies:
        numbers[copy.relation] = dict(current.incarnations)[copy.name]
        numbers.pop(copy.name, None)
        numbers.pop(copy.key_index, None)
    staged = () if current.staged else planned.staged
    return replace(planned, copies=(), staged=staged, incarnations=tuple(numbers.items()))


def abandoned(current: Catalog, copies: Sequence[Copy]) -> Catalog:
    """The next catalog, without `copies`; the same catalog if it does not have these."""
    if not copies or current.copies != copies:
        return current
    gone = {name for copy in copies for name in (copy.name, copy.key_index)}
    return replace(
        current,
        version=current.version + 1,
        copies=(),
        indexes=tuple(index for index in current.indexes if index.name not in gone),
        states=tuple((name, state) for name, state in current.states if name not in gone),
        incarnations=tuple((n, i) for n, i in current.incarnations if n not in gone),
    )


def undone(current: Catalog, staged: Collection[tuple[str, str]]) -> Catalog:
    """The next catalog, without what the first stage of a change has added; the same catalog if
    this is not `staged`."""
    if not staged or current.staged != staged:
        return current
    schema = stages.undone(current.schema, staged)
    left = replace(current, version=current.version + 1, schema=schema, staged=())
    return with_kept_comments(current, left)


def require_same(made: Catalog, current: Catalog) -> None:
    """Raises BeingLoaded when a change of the schema would meet copies that are under way."""
    if current.copies and made.copies == current.copies and made.schema != current.schema:
        raise being_copied(current)


def require_stage(planned: Catalog, current: Catalog) -> None:
    """Raises BeingLoaded unless `planned` is the second stage of the change whose first stage is in
    force, if there is one."""
    if current.staged and planned.staged != current.staged:
        raise being_copied(current)


def being_copied(catalog: Catalog) -> BeingLoaded:
    relations = [copy.relation for copy in catalog.copies]
    relations += [relation for relation, _ in catalog.staged if relation != SEQUENCE]
    names = ", ".join(dict.fromkeys(relations))
    return BeingLoaded(
        f"{names}: another change of the schema is under way, which writes all rows again.",
        cure="Send the change again when it has ended (hornbeam status: builds).",
    )
