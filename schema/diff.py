"""The changes from one schema to the next, and the changes among them that are refused.

Relations, indexes, constraints and columns can be added and dropped. Rows that are older than a
column show its default, or NULL. Stored rows are checked before a column becomes NOT NULL or gets
a narrower type. A type whose values have other bytes, and a generated column, need a copy
of the rows (`schema/copies.py`); no other change writes rows again. Changes that would give stored
rows another meaning are refused, with the reason and a cure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hornbeam_server.schema.copies import Copy, Using, copies_for, is_generated, needs_conversion
from hornbeam_server.schema.domains import domain_names
from hornbeam_server.schema.enumerated import used_enumerations
from hornbeam_server.schema.enumerations import Enumeration
from hornbeam_server.schema.model import (
    Action,
    Check,
    Column,
    DeclaredIndex,
    DeclaredSequence,
    DeclaredView,
    DefaultKind,
    Domain,
    ForeignKey,
    Refresh,
    Relation,
    Schema,
)
from hornbeam_server.schema.namespaces import key_name
from hornbeam_server.schema.renames import Rename
from hornbeam_server.schema.render import (
    render_default,
    render_domain,
    render_identity,
    render_options,
)
from hornbeam_server.schema.row_identity import shared_identity_name
from hornbeam_server.schema.types import takes_all


@dataclass(frozen=True, slots=True)
class Refusal:
    """A change that cannot be made; `name` is the column or the relation's own name."""

    relation: str
    name: str
    change: str
    reason: str
    cure: str
    only_with_rows: bool = False
    """It is made if the relation has no rows."""


@dataclass(frozen=True, slots=True)
class DiffRow:
    """One line for display: ("add", "column", "item.i_weight", "DOUBLE")."""

    action: str
    kind: str
    name: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class SchemaDiff:
    """The changes between two schemas. Pairs are (relation, object). A changed foreign key, CHECK,
    index or view is dropped and added.

    `relaxed_columns` now accept NULL or more values, as given; `restricted_columns` become NOT NULL
    or get a type with fewer values; `redefaulted_columns` have another default, and
    `renumbered_columns` new options for their next numbers. The indexes and constraints of a
    dropped relation are dropped with it and not listed. Nor are the constraints of an added
    relation; its indexes are listed. `spaces` are the schemas of both besides `public`.
    """

    added_relations: tuple[Relation, ...] = ()
    dropped_relations: tuple[Relation, ...] = ()
    dropped_columns: tuple[tuple[str, Column], ...] = ()
    appended_columns: tuple[tuple[str, Column], ...] = ()
    relaxed_columns: tuple[tuple[str, Column], ...] = ()
    restricted_columns: tuple[tuple[str, Column], ...] = ()
    redefaulted_columns: tuple[tuple[str, Column], ...] = ()
    renumbered_columns: tuple[tuple[str, Column], ...] = ()
    added_indexes: tuple[DeclaredIndex, ...] = ()
    dropped_indexes: tuple[DeclaredIndex, ...] = ()
    added_foreign_keys: tuple[tuple[str, ForeignKey], ...] = ()
    dropped_foreign_keys: tuple[tuple[str, ForeignKey], ...] = ()
    added_checks: tuple[tuple[str, Check], ...] = ()
    dropped_checks: tuple[tuple[str, Check], ...] = ()
    added_views: tuple[DeclaredView, ...] = ()
    dropped_views: tuple[DeclaredView, ...] = ()
    added_sequences: tuple[DeclaredSequence, ...] = ()
    dropped_sequences: tuple[DeclaredSequence, ...] = ()
    changed_sequences: tuple[DeclaredSequence, ...] = ()
    added_enumerations: tuple[Enumeration, ...] = ()
    dropped_enumerations: tuple[Enumeration, ...] = ()
    changed_enumerations: tuple[Enumeration, ...] = ()
    added_domains: tuple[Domain, ...] = ()
    dropped_domains: tuple[Domain, ...] = ()
    changed_domains: tuple[Domain, ...] = ()
    moved_keys: tuple[Relation, ...] = ()
    """The relations that get another primary key, or none any more."""
    renamed_keys: tuple[tuple[str, str, str], ...] = ()
    """Primary keys that get another name: the relation, the old name, the new name."""
    moved_columns: tuple[tuple[str, Column], ...] = ()
    """The columns that get another domain, or declare other things besides it."""
    refused: tuple[Refusal, ...] = ()
    renames: tuple[Rename, ...] = ()
    """Renames that come before all other changes, whose names are the new ones."""
    copies: tuple[Copy, ...] = ()
    """The relations whose rows are written again, because values of columns change."""
    added_spaces: tuple[str, ...] = ()
    dropped_spaces: tuple[str, ...] = ()
    """Schemas in the sense of `namespaces.py`."""

    spaces: tuple[str, ...] = field(default=(), compare=False)

    def __bool__(self) -> bool:
        return any(True for _ in self.rows())

    def rows(self) -> Iterator[DiffRow]:
        """All changes in a fixed order; refused changes come last."""
        for rename in self.renames:
            yield DiffRow("rename", rename.kind, rename.what, rename.new)
        for owner, name, later in self.renamed_keys:
            yield DiffRow("rename", "primary key", f"{owner}.{name}", later)
        for action, sequences in (
            ("drop", self.dropped_sequences),
            ("add", self.added_sequences),
            ("change", self.changed_sequences),
        ):
            for sequence in sequences:
                detail = render_options(sequence, self.spaces)
                yield DiffRow(action, "sequence", sequence.name, detail)
        yield from self._type_rows()
        for action, spaces in (("drop", self.dropped_spaces), ("add", self.added_spaces)):
            yield from (DiffRow(action, "schema", space) for space in spaces)
        for relation in self.dropped_relations:
            yield DiffRow("drop", "relation", relation.name)
        for relation in self.added_relations:
            yield DiffRow("add", "relation", relation.name, f"{len(relation.visible)} columns")
        yield from self._column_rows()
        yield from self._constraint_rows()
        for action, indexes in (("drop", self.dropped_indexes), ("add", self.added_indexes)):
            for index in indexes:
                yield DiffRow(action, "index", index.name, _indexed(index))
        for action, views in (("drop", self.dropped_views), ("add", self.added_views)):
            for view in views:
                yield DiffRow(action, "view", view.name, refreshed(view))
        for refusal in self.refused:
            name = refusal.name if refusal.name == refusal.relation else _qualified(refusal)
            yield DiffRow("refuse", refusal.change, name, f"{refusal.reason}; {refusal.cure}")

    def _type_rows(self) -> Iterator[DiffRow]:
        for action, enumerations in (
            ("drop", self.dropped_enumerations),
            ("add", self.added_enumerations),
            ("change", self.changed_enumerations),
        ):
            for enumeration in enumerations:
                labels = ", ".join(enumeration.labels)
                yield DiffRow(action, "type", enumeration.full, labels)
        for action, domains in (
            ("drop", self.dropped_domains),
            ("add", self.added_domains),
            ("change", self.changed_domains),
        ):
            for domain in domains:
                detail = render_domain(domain, self.spaces).partition(" AS ")[2]
                yield DiffRow(action, "domain", domain.name, detail)

    def _column_rows(self) -> Iterator[DiffRow]:
        for action, changed in (
            ("drop", self.dropped_columns),
            ("add", self.appended_columns),
            ("relax", self.relaxed_columns),
            ("restrict", self.restricted_columns),
        ):
            for owner, column in changed:
                yield DiffRow(action, "column", f"{owner}.{column.name}", _described(column))
        for owner, column in self.redefaulted_columns:
            yield DiffRow("change", "default", f"{owner}.{column.name}", _defaulted(column))
        for owner, column in self.renumbered_columns:
            yield DiffRow("change", "identity", f"{owner}.{column.name}", _defaulted(column))
        for owner, column in self.moved_columns:
            detail = column.type.ddl() if column.domain is None else f"of {column.domain.name}"
            yield DiffRow("change", "domain", f"{owner}.{column.name}", detail)
        for copy in self.copies:
            yield from _converted(copy, self.appended_columns)

    def _constraint_rows(self) -> Iterator[DiffRow]:
        for relation in self.moved_keys:
            columns = ", ".join(relation.declared_key)
            under = f"({columns})" if columns else "none; a hidden number"
            detail = f"{under}, under which all rows are written again"
            yield DiffRow("change", "primary key", relation.name, detail)
        for action, keys in (("drop", self.dropped_foreign_keys), ("add", self.added_foreign_keys)):
            for owner, key in keys:
                yield DiffRow(action, "foreign key", f"{owner}.{key.name}", _target(key))
        for action, checks in (("drop", self.dropped_checks), ("add", self.added_checks)):
            for owner, check in checks:
                yield DiffRow(action, "check", f"{owner}.{check.name}", check.sql)


def _qualified(refusal: Refusal) -> str:
    return f"{refusal.relation}.{refusal.name}"


def _described(column: Column) -> str:
    return column.type.ddl() + ("" if column.nullable else " NOT NULL")


def _defaulted(column: Column) -> str:
    if column.default is None:
        return "no default"
    if column.default.kind is DefaultKind.IDENTITY:
        return render_identity(column.default.identity)
    return f"DEFAULT {render_default(column.default)}"


def _target(key: ForeignKey) -> str:
    columns, to = ", ".join(key.columns), key.parent
    if key.to_unique:
        to += f" ({', '.join(key.parent_columns)})"
    text = f"({columns}) references {to}, on delete {key.on_delete.value}"
    if key.on_update is Action.RESTRICT:
        return text
    return f"{text}, on update {key.on_update.value}"


def _indexed(index: DeclaredIndex) -> str:
    columns = ", ".join(p.column + (" desc" if p.descending else "") for p in index.columns)
    unique = "unique " if index.unique else ""
    include = f" include ({', '.join(index.include)})" if index.include else ""
    where = f" where {index.where}" if index.where else ""
    nulls = "" if index.nulls_distinct else " nulls not distinct"
    return f"{unique}on {index.relation} ({columns}){include}{nulls}{where}"


def refreshed(view: DeclaredView) -> str:
    """How a declared view is kept, for display."""
    if view.refresh is Refresh.IMMEDIATE:
        return "immediate"
    if view.refresh is Refresh.PLAIN:
        return "a name for a SELECT"
    if view.refresh is Refresh.RECOMPUTE:
        return f"recomputed, every {view.interval_s:g} s, group {view.group}"
    if view.refresh is Refresh.LIVE:
        return f"live, every {view.interval_s:g} s, group {view.group}"
    return f"deferred, every {view.interval_s:g} s, group {view.group}"


def _converted(copy: Copy, appended: Collection[tuple[str, Column]]) -> Iterator[DiffRow]:
    expressions = dict(copy.conversions)
    for column in copy.target.columns:
        if column.name in copy.changed:
            sql = expressions.get(column.name)
            how = "computed again" if sql is None else f"using {sql}"
            new = column.hidden or (copy.relation, column) in appended
            if not is_generated(column) and new:
                how = "another value for each row"
            name = f"{copy.relation}.{column.name}"
            yield DiffRow("rewrite", "column", name, f"{_described(column)}, {how}")


def diff(old: Schema, new: Schema, usings: Sequence[Using] = ()) -> SchemaDiff:
    """All changes from `old` to `new`, both valid. Relations and columns are matched by name.
    Raises InvalidRequest for a USING of a column that does not stay."""
    kept = [(old.relation(r.name), r) for r in new.relations if r.name in old]
    added_keys = [(n.name, key) for o, n in kept for key in n.foreign_keys]
    dropped_keys = [(o.name, key) for o, n in kept for key in o.foreign_keys]
    added_checks = [(n.name, check) for o, n in kept for check in n.checks]
    dropped_checks = [(o.name, check) for o, n in kept for check in o.checks]
    pairs = [(n.name, *both) for o, n in kept for both in _both(o, n)]
    defaults = [each for each in pairs if each[1].default != each[2].default]
    stay = {relation.name for _, relation in kept}
    stay |= {view.name for view in new.views} & {view.name for view in old.views}
    sequences = {sequence.name: sequence for sequence in old.sequences}
    later_sequences = {sequence.name for sequence in new.sequences}
    enumerations = {enumeration.full: enumeration for enumeration in old.enumerations}
    later_enumerations = {enumeration.full for enumeration in new.enumerations}
    domains, later_domains = domain_names(old), domain_names(new)
    return SchemaDiff(
        added_relations=tuple(r for r in new.relations if r.name not in old),
        dropped_relations=tuple(r for r in old.relations if r.name not in new),
        spaces=tuple(dict.fromkeys((*old.spaces, *new.spaces))),
        appended_columns=tuple(
            (n.name, c) for o, n in kept for c in n.visible if c.name not in o.visible_names
        ),
        dropped_columns=tuple(
            (o.name, c) for o, n in kept for c in o.visible if c.name not in n.visible_names
        ),
        relaxed_columns=tuple((name, new) for name, old, new in pairs if _relaxes(old, new)),
        restricted_columns=tuple((name, new) for name, old, new in pairs if _restricts(old, new)),
        redefaulted_columns=tuple((n, b) for n, a, b in defaults if not _are_identities(a, b)),
        renumbered_columns=tuple((n, b) for n, a, b in defaults if _are_identities(a, b)),
        added_indexes=tuple(i for i in new.indexes if i not in old.indexes),
        dropped_indexes=tuple(
            i for i in old.indexes if i not in new.indexes and i.relation in stay
        ),
        added_foreign_keys=tuple(pair for pair in added_keys if pair not in dropped_keys),
        dropped_foreign_keys=tuple(pair for pair in dropped_keys if pair not in added_keys),
        added_checks=tuple(pair for pair in added_checks if pair not in dropped_checks),
        dropped_checks=tuple(pair for pair in dropped_checks if pair not in added_checks),
        added_views=tuple(view for view in new.views if view not in old.views),
        dropped_views=tuple(view for view in old.views if view not in new.views),
        added_sequences=tuple(s for s in new.sequences if s.name not in sequences),
        dropped_sequences=tuple(s for s in old.sequences if s.name not in later_sequences),
        changed_sequences=tuple(s for s in new.sequences if sequences.get(s.name, s) != s),
        added_enumerations=tuple(e for e in new.enumerations if e.full not in enumerations),
        dropped_enumerations=tuple(e for e in old.enumerations if e.full not in later_enumerations),
        changed_enumerations=tuple(
            e for e in new.enumerations if enumerations.get(e.full, e).labels != e.labels
        ),
        added_domains=tuple(each for each in new.domains if each.name not in domains),
        dropped_domains=tuple(each for each in old.domains if each.name not in later_domains),
        changed_domains=tuple(
            each for each in new.domains if each.name in domains and each not in old.domains
        ),
        renamed_keys=tuple(_renamed_keys(kept, old, new)),
        moved_keys=tuple(n for o, n in kept if o.declared_key != n.declared_key),
        moved_columns=tuple((name, new) for name, old, new in pairs if old.domain != new.domain),
        refused=(
            *(refusal for o, n in kept for refusal in _refusals(o, n, usings)),
            *_refused_labels(old, new),
        ),
        copies=copies_for(old, new, usings),
        added_spaces=tuple(space for space in new.spaces if space not in old.spaces),
        dropped_spaces=tuple(space for space in old.spaces if space not in new.spaces),
    )


def _both(old: Relation, new: Relation) -> Iterator[tuple[Column, Column]]:
    for column in new.visible:
        if column.name in old.visible_names:
            yield old.column(column.name), column


def _renamed_keys(
    kept: Iterable[tuple[Relation, Relation]], old: Schema, new: Schema
) -> Iterator[tuple[str, str, str]]:
    for before, after in kept:
        name, later = key_name(before, old.spaces), key_name(after, new.spaces)
        if name and later and name != later:
            yield after.name, name, later


def _relaxes(before: Column, after: Column) -> bool:
    """Does the column take more values?"""
    wider = before.type != after.type and takes_all(after.type, before.type)
    return wider or (after.nullable and not before.nullable)


def _restricts(before: Column, after: Column) -> bool:
    """Must stored values be checked, since the column no longer takes all of them?"""
    return narrows(before, after) or (before.nullable and not after.nullable)


def narrows(before: Column, after: Column) -> bool:
    """Does the new type lack values of the old one, which have the same bytes?"""
    return not needs_conversion(before, after) and not takes_all(after.type, before.type)


def _are_identities(*columns: Column) -> bool:
    return all(column.default_kind is DefaultKind.IDENTITY for column in columns)


def _refusals(old: Relation, new: Relation, usings: Sequence[Using]) -> Iterator[Refusal]:
    yield from _refused_order(old, new)
    yield from _refused_key(old, new)
    used = {each.column for each in usings if each.relation == new.name}
    for before, after in _both(old, new):
        if after.name in new.primary_key:
            yield from _refused_key_column(new.name, before, after, after.name in used)
    for column in new.visible:
        if column.name not in old.visible_names:
            yield from _refused_append(new.name, column)


def _refused_key(old: Relation, new: Relation) -> Iterator[Refusal]:
    """Refuse a primary key of columns that the stored rows do not have, and a column that has the
    name of the row identity."""
    added = [name for name in new.primary_key if name not in old.stored_names]
    shared = shared_identity_name(old, new)
    if shared:
        yield Refusal(
            new.name,
            shared,
            "column",
            "the hidden number of the rows has this name",
            "choose another name, or rename the column in a change of its own",
        )
    elif old.declared_key != new.declared_key and added:
        yield Refusal(
            new.name,
            new.name,
            "primary key",
            f"stored rows have no {', '.join(added)} yet",
            "add the columns first, and the key in a further change",
        )


def _refused_order(old: Relation, new: Relation) -> Iterator[Refusal]:
    """Refuse an order of columns unless all kept columns come first, in the old order."""
    kept = [name for name in old.visible_names if name in new.visible_names]
    if list(new.visible_names[: len(kept)]) != kept:
        yield Refusal(
            new.name,
            new.name,
            "order of columns",
            "new columns are appended; rows are stored in this order",
            f"begin with {', '.join(kept)}",
        )


def _refused_key_column(
    relation: str, before: Column, after: Column, used: bool
) -> Iterator[Refusal]:
    """Refuse other values in a primary key. `used`: an expression behind USING gives them."""
    computed = is_generated(after) and before.default != after.default
    if used or computed or needs_conversion(before, after):
        yield Refusal(
            relation,
            after.name,
            "type",
            f"it belongs to the primary key, and rows are stored under its {before.type.ddl()}"
            " values",
            f"write {before.type.ddl()}; change the type in a change of its own, while the column"
            " belongs to no key",
        )


def _refused_labels(old: Schema, new: Schema) -> Iterator[Refusal]:
    """Refuse an enumeration without labels that stored rows may have, or in another order."""
    used = used_enumerations(old) & used_enumerations(new)
    before = {each.full: each for each in old.enumerations if each.full in used}
    for after in new.enumerations:
        known = before.get(after.full)
        if known is None or after.keeps_order_of(known):
            continue
        lost = [label for label in known.labels if label not in after.labels]
        yield Refusal(
            after.full,
            after.full,
            "labels of a type",
            f"stored rows may have {', '.join(lost)}"
            if lost
            else "rows are stored and indexed in the order of the labels in force",
            "keep all labels, in their order, and add new ones; or create another type, and change"
            " the columns by ALTER COLUMN … TYPE … USING",
        )


def _refused_append(relation: str, column: Column) -> Iterator[Refusal]:
    if is_generated(column):
        return
    if not column.nullable and column.default is None:
        yield Refusal(
            relation,
            column.name,
            "new column",
            "it is NOT NULL and stored rows have no value for it",
            "allow NULL, or give it a default; if it is a column in force with another"
            " name, say so: --rename relation.old=new",
            only_with_rows=True,
        )
