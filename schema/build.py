"""Validation of schemas, for all sources.

A loader (`ddl`, `reflect`) collects drafts: names with their places, without any check. `build`
turns them into a `Schema` or raises SchemaError at the place of the offending name. It establishes
the invariants of `Schema` (model.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from hornbeam_server.schema.domains import declared_column, declared_domain
from hornbeam_server.schema.drafts import (
    CheckDraft,
    DomainDraft,
    ForeignKeyDraft,
    IndexDraft,
    Name,
    Place,
    RelationDraft,
    SequenceDraft,
    ViewDraft,
)
from hornbeam_server.schema.errors import capitalised
from hornbeam_server.schema.key_names import key_names
from hornbeam_server.schema.model import (
    Action,
    Check,
    Column,
    DeclaredIndex,
    DeclaredSequence,
    DeclaredView,
    DefaultKind,
    ForeignKey,
    KeyExpression,
    KeyPart,
    Refresh,
    Relation,
    Schema,
)
from hornbeam_server.schema.namespaces import SYSTEM_SCHEMAS, beside, key_name
from hornbeam_server.schema.namespaces import bare as own_name
from hornbeam_server.schema.notes import notes
from hornbeam_server.schema.problems import Problems, Subject
from hornbeam_server.schema.row_identity import row_identity
from hornbeam_server.schema.types import UNORDERED, ColumnType, Kind

SYSTEM_PREFIX = "s."
"""The prefix of the names of system tables."""


class Drafted(Protocol):
    """A draft of something with a name; None: it has none yet."""

    @property
    def name(self) -> Name | None: ...


Named = TypeVar("Named", bound=Drafted)


def build(
    relations: Sequence[RelationDraft],
    indexes: Sequence[IndexDraft],
    views: Sequence[ViewDraft] = (),
    problems: Problems | None = None,
    sequences: Sequence[SequenceDraft] = (),
    spaces: Sequence[Name] = (),
    domains: Sequence[DomainDraft] = (),
) -> Schema:
    """Validate drafts and build the schema. Does not check the SELECTs of views. `spaces` are the
    schemas besides `public` (`namespaces.py`).

    With `problems`, errors are collected there, and the schema lacks the wrong elements. Otherwise
    raises SchemaError; its detail `problems` has all errors.
    """
    collected = Problems() if problems is None else problems
    made = tuple(_checked_spaces(spaces, views, collected))
    relations = list(_named_once(relations, "relation", collected, spaces=made))
    bare = {draft.name.text: _bare_relation(draft, collected) for draft in relations}
    viewed = {draft.name.text: draft.view for draft in views}
    found = tuple(_indexes(indexes, bare, viewed, made, collected))
    unique = [index for index in found if index.unique and index.is_whole]
    whole = tuple(_with_constraints(draft, bare, unique, made, collected) for draft in relations)
    taken = {*bare, *(index.name for index in found)}
    declared = tuple(draft.view for draft in _checked_views(views, taken, made, collected))
    taken |= {view.name for view in declared}
    _check_parts(relations, indexes, views, collected)
    others = [each.name for each in indexes if each.name is not None]
    others += (view.name for view in views)
    keys = key_names(relations, others, taken, made, collected)
    whole = tuple(replace(each, key_name=_own_key(each, keys)) for each in whole)
    taken |= {beside(each.name, key_name(each, made), made) for each in whole if each.declared_key}
    numbered = tuple(_checked_sequences(sequences, bare, taken, made, collected))
    schema = Schema(
        whole, found, declared, numbered, made, domains=tuple(map(declared_domain, domains))
    )
    schema = replace(schema, notes=tuple(notes(relations, schema)))
    if problems is None:
        collected.require_none()
    return schema


def _checked_spaces(
    spaces: Sequence[Name], views: Sequence[ViewDraft], problems: Problems
) -> Iterator[str]:
    """The names of the schemas. A dot would end the name in a full name, and the stored state of a
    view has the name `view.state`."""
    stored = {view.name.text for view in views if view.view.refresh is not Refresh.PLAIN}
    for name in {name.text: name for name in spaces}.values():
        with problems.collect((name.text, "")):
            _check_name(name, "schema")
            if "." in name.text:
                raise name.place.error(
                    f"Schema name {name.text} has a dot in it.",
                    cure="Choose a name without a dot.",
                    name=name.text,
                )
            if name.text in SYSTEM_SCHEMAS or name.text.startswith("pg_"):
                raise name.place.error(
                    f"Schema name {name.text} is reserved for the system.",
                    cure="Choose another name.",
                    name=name.text,
                )
            if name.text in stored:
                raise name.place.error(
                    f"Schema {name.text} has the name of a materialized view.",
                    cure="Rename the view or the schema.",
                    name=name.text,
                )
            yield name.text


def _named_once(
    drafts: Iterable[Named],
    what: str,
    problems: Problems,
    owner: str = "",
    spaces: Collection[str] = (),
) -> Iterator[Named]:
    """The drafts of one name space with valid and new names, or without names. `owner` is their
    relation."""
    seen: dict[str, Name] = {}
    for draft in drafts:
        name = draft.name
        if name is None:
            yield draft
            continue
        with problems.collect((owner or name.text, "")):
            _check_name(name, what, spaces)
            first = seen.setdefault(name.text, name)
            if first is not name:
                known = first.place.file and first.place.line
                where = f"; the first is in line {first.place.line}" if known else ""
                of = f"{owner}." if owner else ""
                raise name.place.error(
                    f"{capitalised(what)} {of}{name.text} is declared twice.",
                    cure=f"Drop or rename one of them{where}.",
                    name=name.text,
                )
            yield draft


def _check_name(name: Name, what: str, spaces: Collection[str] = ()) -> None:
    """Check a name. Full names (`namespaces.py`) come with the schemas besides `public`."""
    text = name.text
    if not text or not text.isprintable():
        raise name.place.error(
            f"{capitalised(what)} name {text!r} is empty or holds an unprintable character.",
            cure="Use letters, digits, underscores and blanks.",
            name=text,
        )
    if text.startswith(SYSTEM_PREFIX) and SYSTEM_PREFIX[:-1] not in spaces:
        raise name.place.error(
            f"{capitalised(what)} name {text} is reserved: names that begin with"
            f" {SYSTEM_PREFIX!r} are the system's.",
            cure="Choose another name.",
            name=text,
        )


def _bare_relation(draft: RelationDraft, problems: Problems) -> Relation:
    """The relation without its constraints: the check of foreign keys needs all other
    relations."""
    name, key = draft.name, tuple[str, ...]()
    drafts = tuple(_named_once(draft.columns, "column", problems, name.text))
    about = [] if drafts else [(name.text, "")]  # its columns could not be read
    with problems.collect((name.text, ""), spoils=True, about=about):
        if not drafts:
            raise name.place.error(
                f"Relation {name.text} has no columns.",
                cure="Declare at least one column.",
                name=name.text,
            )
        key = _primary_key(draft)
    columns = tuple(declared_column(draft, in_key=draft.name.text in key) for draft in drafts)
    for column, column_draft in zip(columns, drafts, strict=True):
        subject = (name.text, column.name)
        with problems.collect(subject, spoils=True, about=[subject]):
            _check_default(name, column, column_draft.name.place)
    if key and {column.name for column in columns}.issuperset(key):  # no wrong name is in the key
        return Relation(name.text, columns, key)
    identity = row_identity([column.name for column in columns])
    return Relation(name.text, (identity, *columns), (identity.name,))


def _primary_key(draft: RelationDraft) -> tuple[str, ...]:
    """The columns of the declared primary key; empty if there is none."""
    name = draft.name
    keys = [key.columns for key in draft.primary_keys if key.columns]
    if not keys:
        return ()
    if len(keys) > 1:
        raise keys[1][0].place.error(
            f"Relation {name.text} has two primary keys.",
            cure="For a composite key write one PRIMARY KEY (a, b) after the columns.",
            name=name.text,
        )
    types = {column.name.text: column.type for column in draft.columns}
    return _key_columns(keys[0], name.text, types, "the primary key")


def _key_columns(
    names: Sequence[Name], relation: str, types: dict[str, ColumnType], what: str
) -> tuple[str, ...]:
    """Check the columns of a key or index: they exist, are distinct, and have an ordered type."""
    _check_columns(names, relation, types, what)
    for name in names:
        if (kind := types[name.text].kind) in UNORDERED:
            raise name.place.error(
                f"Column {relation}.{name.text} of type {types[name.text].ddl()} cannot be in"
                f" {what}.",
                cure=_UNORDERED_CURES[kind],
                name=name.text,
            )
    return tuple(name.text for name in names)


_UNORDERED_CURES = {
    Kind.JSON: "Equal documents may be written differently; use a column of another type.",
    Kind.ARRAY: "Make a child relation with one row per element, and a key or an index there.",
}


def _check_some(names: Sequence[object], place: Place, what: str) -> None:
    if not names:
        raise place.error(f"{capitalised(what)} has no columns.", cure="Name at least one column.")


def _check_columns(
    names: Sequence[Name], relation: str, known: Iterable[str], what: str
) -> tuple[str, ...]:
    known = list(known)
    seen: set[str] = set()
    for name in names:
        if name.text not in known:
            raise name.place.error(
                f"{capitalised(what)} names column {name.text}, which {relation} does not have.",
                cure=f"{relation} has: {', '.join(known)}.",
                name=name.text,
            )
        if name.text in seen:
            raise name.place.error(
                f"{capitalised(what)} names column {relation}.{name.text} twice.",
                cure="Name it once.",
                name=name.text,
            )
        seen.add(name.text)
    return tuple(name.text for name in names)


def _check_default(relation: Name, column: Column, place: Place) -> None:
    default = column.default
    if default is None or default.kind is not DefaultKind.IDENTITY:
        return
    if column.type.kind not in {Kind.INTEGER, Kind.BIGINT}:
        raise place.error(
            f"Identity column {relation.text}.{column.name} has type {column.type.sql()}.",
            cure="Declare it BIGINT.",
            name=column.name,
        )
    numbers = (default.identity.start, default.identity.last)
    if any(number is not None and number not in column.type.integers for number in numbers):
        raise place.error(
            f"Identity column {relation.text}.{column.name}: {column.type.sql()} does not hold all"
            f" numbers up to {default.identity.last or default.identity.start}.",
            cure="Declare it BIGINT, or begin and end with smaller numbers.",
            name=column.name,
        )


def _with_constraints(
    draft: RelationDraft,
    bare: dict[str, Relation],
    unique: Sequence[DeclaredIndex],
    spaces: Collection[str],
    problems: Problems,
) -> Relation:
    child = bare[draft.name.text]
    of = own_name(child.name, spaces)
    drafts = list(_named_once(draft.foreign_keys, "foreign key", problems, child.name))
    constraints: list[Drafted] = [*draft.primary_keys, *drafts, *draft.all_checks]
    named = _named_once(constraints, "constraint", problems, child.name)
    check_drafts = [each for each in named if isinstance(each, CheckDraft)]
    taken = {each.name.text for each in constraints if each.name is not None}
    found: list[ForeignKey] = []
    for foreign_key in drafts:
        about = list(_subjects(foreign_key, child.name, bare))
        with problems.collect((child.name, ""), about=about):
            made = _foreign_key(foreign_key, child, bare, unique, _Labels(of, taken))
            _check_new(foreign_key, made, found)
            found.append(made)
    checks = tuple(_check(check, child, _Labels(of, taken)) for check in check_drafts)
    return replace(child, foreign_keys=tuple(found), checks=checks)


def _own_key(relation: Relation, keys: Mapping[str, str]) -> str:
    return keys[relation.name] if relation.declared_key else ""


def _check(draft: CheckDraft, relation: Relation, labels: _Labels) -> Check:
    """A CHECK. Its generated name is PostgreSQL's: with a column if it reads just one."""
    if draft.name is not None:
        return Check(draft.name.text, draft.expression.sql, draft.origin)
    known = relation.positions
    read = [word for word in dict.fromkeys(draft.expression.words) if word in known]
    columns = read if len(read) == 1 else []
    return Check(labels.new(columns, "check"), draft.expression.sql)


def _subjects(draft: ForeignKeyDraft, child: str, bare: dict[str, Relation]) -> Iterator[Subject]:
    """The relation and the columns that a foreign key reads."""
    parent = draft.parent.text
    yield parent, ""
    yield from ((child, name.text) for name in draft.columns)
    yield from ((parent, key) for key in (bare[parent].primary_key if parent in bare else ()))


def _check_new(draft: ForeignKeyDraft, made: ForeignKey, before: Sequence[ForeignKey]) -> None:
    for other in before:
        if _sides(other) == _sides(made):
            raise draft.columns[0].place.error(
                f"Foreign key {made.name} says the same as {other.name}.",
                cure="Drop one of them.",
                name=made.name,
            )


def _sides(key: ForeignKey) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    return key.columns, key.parent, key.parent_columns


def _foreign_key(
    draft: ForeignKeyDraft,
    child: Relation,
    bare: dict[str, Relation],
    unique: Sequence[DeclaredIndex],
    labels: _Labels,
) -> ForeignKey:
    what = f"Foreign key {draft.name.text}" if draft.name else f"A foreign key of {child.name}"
    _check_some(draft.columns, draft.parent.place, what)
    columns = _check_columns(draft.columns, child.name, child.visible_names, what)
    parent = bare.get(draft.parent.text)
    if parent is None:
        raise draft.parent.place.error(
            f"{what} references {draft.parent.text}, which is not a relation of this schema.",
            cure=f"Relations are: {', '.join(bare)}.",
            name=draft.parent.text,
        )
    target = _target(draft, what, parent, unique)
    columns = _in_order_of(target, draft, what, columns, parent)
    _check_types(draft, what, (child, columns), (parent, target))
    _check_actions(draft, what, child)
    listed = [column.text for column in draft.columns]
    name = draft.name.text if draft.name else labels.new(listed, "fkey")
    to_unique = target != parent.declared_key
    return ForeignKey(
        name, columns, parent.name, target, draft.on_delete, draft.on_update, to_unique
    )


def _target(
    draft: ForeignKeyDraft, what: str, parent: Relation, unique: Sequence[DeclaredIndex]
) -> tuple[str, ...]:
    """The referenced columns, in the order of the parent's primary key or of its UNIQUE index."""
    key = parent.declared_key
    if not draft.parent_columns:
        if key:
            return key
        raise draft.parent.place.error(
            f"{what} references {parent.name}, which has no primary key.",
            cure=f"Name columns that are UNIQUE: REFERENCES {parent.name} (columns).",
            name=parent.name,
        )
    named = _check_columns(draft.parent_columns, parent.name, parent.visible_names, what)
    keys = [tuple(p.column for p in i.columns) for i in unique if i.relation == parent.name]
    for columns in (
        key,
        *sorted(keys, key=lambda columns: columns != named),
    ):  # an index in this order comes first
        if set(columns) == set(named):
            return columns
    listed = ", ".join(named)
    choices = " or ".join(
        f"{parent.name} ({', '.join(columns)})" for columns in (key, *keys) if columns
    )
    raise draft.parent_columns[0].place.error(
        f"{what} references {parent.name} ({listed}), which is neither its whole primary key nor"
        " UNIQUE.",
        cure=f"Reference {choices}, or declare UNIQUE ({listed})."
        if choices
        else f"Declare UNIQUE ({listed}).",
        name=parent.name,
    )


def _in_order_of(
    target: tuple[str, ...],
    draft: ForeignKeyDraft,
    what: str,
    columns: tuple[str, ...],
    parent: Relation,
) -> tuple[str, ...]:
    """The child columns in the order of the referenced columns `target`."""
    named = tuple(name.text for name in draft.parent_columns) or target
    if len(columns) != len(named):
        listed = ", ".join(named)
        raise draft.columns[0].place.error(
            f"{what} has {len(columns)} columns for the {len(named)} of {parent.name} ({listed}).",
            cure=f"Give one column for each of {listed}.",
            name=draft.columns[0].text,
        )
    by_parent = dict(zip(named, columns, strict=True))
    return tuple(by_parent[column] for column in target)


_Side = tuple[Relation, tuple[str, ...]]


def _check_types(draft: ForeignKeyDraft, what: str, source: _Side, target: _Side) -> None:
    """Check that both sides have the same values and encoding; lengths of texts may differ."""
    (child, columns), (parent, referenced) = source, target
    places = {name.text: name.place for name in draft.columns}
    for name, key in zip(columns, referenced, strict=True):
        mine, theirs = child.column(name).type, parent.column(key).type
        if _values_of(mine) != _values_of(theirs):
            raise places[name].error(
                f"{what}: {child.name}.{name} is {mine.ddl()}, {parent.name}.{key} is "
                f"{theirs.ddl()}.",
                cure=f"Declare {child.name}.{name} as {theirs.ddl()}.",
                name=name,
            )


def _values_of(type_: ColumnType) -> tuple[object, ...]:
    """What two types have in common if they have the same values and encoding. Enumerations with
    the same labels are alike: a file of MySQL has one for each column."""
    labels = None if type_.enumeration is None else type_.enumeration.labels
    return type_.kind, type_.precision, type_.scale, labels


def _check_actions(draft: ForeignKeyDraft, what: str, child: Relation) -> None:
    """Check that the actions do not set generated columns. As in PostgreSQL, an action may set NULL
    in a column that is NOT NULL: it then refuses the statement (`_notes_of_actions`)."""
    for event, action in (("DELETE", draft.on_delete), ("UPDATE", draft.on_update)):
        if action is Action.RESTRICT or (event, action) == ("DELETE", Action.CASCADE):
            continue
        says = f"{what} says ON {event} {action.value.upper()}, but {child.name}."
        for name in draft.columns:
            column = child.column(name.text)
            if column in child.generated:
                raise name.place.error(
                    f"{says}{name.text} is generated.",
                    cure=f"Use ON {event} RESTRICT{' or CASCADE' * (event == 'DELETE')}.",
                    name=name.text,
                )


@dataclass(frozen=True, slots=True)
class _Labels:
    """Makes names for the constraints and indexes of `relation`. `taken` are the names that exist;
    a new one is added."""

    relation: str
    taken: set[str]

    def new(self, columns: Sequence[str], suffix: str) -> str:
        """A name by PostgreSQL's convention, with a number if it is taken."""
        base = "_".join((self.relation, *columns, suffix))
        name, number = base, 0
        while name in self.taken:
            number += 1
            name = f"{base}{number}"
        self.taken.add(name)
        return name


def _indexes(
    drafts: Sequence[IndexDraft],
    bare: dict[str, Relation],
    views: dict[str, DeclaredView],
    spaces: Collection[str],
    problems: Problems,
) -> Iterator[DeclaredIndex]:
    """The declared indexes. Relations and indexes share one name space: both are layouts."""
    named = list(_named_once(drafts, "index", problems, spaces=spaces))
    taken = {draft.name.text for draft in named if draft.name is not None} | set(bare)
    for draft in named:
        relation = draft.relation.text
        columns = (name.text for name in (*draft.names, *draft.include))
        about = [(relation, ""), *((relation, column) for column in columns)]
        with problems.collect((relation, ""), about=about):
            if draft.name is not None and draft.name.text in bare:
                raise draft.name.place.error(
                    f"Index {draft.name.text} has the name of a relation.",
                    cure="Rename the index.",
                    name=draft.name.text,
                )
            view = views.get(relation)
            if view is not None and view.name not in bare:
                yield _view_index(draft, view, taken)
            else:
                yield _index(draft, bare, taken)


def _view_index(draft: IndexDraft, view: DeclaredView, taken: set[str]) -> DeclaredIndex:
    """An index on a declared view, whose columns are checked when its SELECT is."""
    names, place = draft.names, draft.relation.place
    text = draft.name.text if draft.name else _Labels(view.name, taken).new(draft.labels, "idx")
    _check_some(draft.columns, place, f"index {text}")
    _check_columns(names, view.name, [name.text for name in names], f"index {text}")
    for wrong, what, cure in (
        (
            view.refresh is Refresh.PLAIN,
            f"is declared on {view.name}, which is not stored",
            "Declare it on a relation that the view reads.",
        ),
        (
            view.refresh is not Refresh.IMMEDIATE,
            f"is declared on {view.name}, which batches refresh",
            "Declare the view with refresh = 'immediate', or leave the index out.",
        ),
        (draft.unique, "on a view is UNIQUE", "Declare UNIQUE on a relation."),
        (
            len(names) < len(draft.columns),
            "on a view has an expression",
            "Compute the value in the view's SELECT, and index its column.",
        ),
        (draft.where is not None, "on a view is partial", "Write WHERE in the view's SELECT."),
        (
            bool(draft.include),
            "on a view has INCLUDE",
            "Leave INCLUDE out: an index on a view has all columns of the view.",
        ),
    ):
        if wrong:
            raise place.error(f"Index {text} {what}.", cure=cure, name=text)
    return DeclaredIndex(text, view.name, _key_parts(draft))


def _index(draft: IndexDraft, bare: dict[str, Relation], taken: set[str]) -> DeclaredIndex:
    relation = bare.get(draft.relation.text)
    if relation is None:
        raise draft.relation.place.error(
            f"An index is declared on {draft.relation.text}, which is not a relation or view of "
            "this schema.",
            cure=f"Relations are: {', '.join(bare)}.",
            name=draft.relation.text,
        )
    names, labels = draft.names, draft.labels
    suffix = "key" if draft.unique else "idx"
    text = draft.name.text if draft.name else _Labels(relation.name, taken).new(labels, suffix)
    types = {column.name: column.type for column in relation.visible}
    what = f"index {text}"
    _check_some(draft.columns, draft.relation.place, what)
    _key_columns(names, relation.name, types, what)
    own = {name.text for name in names}
    added = {name.text: name for name in draft.include if name.text not in own}
    include = _check_columns((*names, *added.values()), relation.name, types, what)[len(names) :]
    where = "" if draft.where is None else draft.where.sql
    parts, expressions = _key_parts(draft), _key_expressions(draft, relation, what)
    distinct = draft.nulls_distinct or not draft.unique
    return DeclaredIndex(
        text, relation.name, parts, include, draft.unique, where, expressions, distinct
    )


def _key_parts(draft: IndexDraft) -> tuple[KeyPart, ...]:
    return tuple(
        KeyPart(part.text if isinstance(part, Name) else f"({part.sql})", descending)
        for part, descending in draft.columns
    )


def _key_expressions(draft: IndexDraft, relation: Relation, what: str) -> tuple[KeyExpression, ...]:
    """The expressions of an index, which the binder of queries checks. Each is named by its text
    in parentheses."""
    found: dict[str, KeyExpression] = {}
    for part, _ in draft.columns:
        if isinstance(part, Name):
            continue
        name = f"({part.sql})"
        if name in found or name in relation.positions:
            raise part.place.error(
                f"{capitalised(what)} has {name} twice, or as the name of a column.",
                cure="Write each part of an index once.",
                name=name,
            )
        found[name] = KeyExpression(name, part.sql)
    return tuple(found.values())


def _checked_views(
    drafts: Sequence[ViewDraft], taken: set[str], spaces: Collection[str], problems: Problems
) -> Iterator[ViewDraft]:
    for draft in _named_once(drafts, "view", problems, spaces=spaces):
        with problems.collect():
            if draft.name.text in taken:
                raise draft.name.place.error(
                    f"View {draft.name.text} has the name of a relation or an index.",
                    cure="Rename the view.",
                    name=draft.name.text,
                )
            draft.require_followed(drafts)
            yield draft


def _check_parts(
    relations: Sequence[RelationDraft],
    indexes: Sequence[IndexDraft],
    views: Sequence[ViewDraft],
    problems: Problems,
) -> None:
    """Check that no name is that of a part of a stored view, such as `view.cells`, or of an index
    on a view."""
    viewed = {draft.name.text for draft in views}
    owners = {draft.name.text for draft in views if draft.view.refresh is not Refresh.PLAIN}
    owners |= {i.name.text for i in indexes if i.name is not None and i.relation.text in viewed}
    drafts: list[RelationDraft | IndexDraft | ViewDraft] = [*relations, *indexes, *views]
    for name in (draft.name for draft in drafts if draft.name is not None):
        with problems.collect((name.text, "")):
            pieces = name.text.split(".")
            begins = (".".join(pieces[:end]) for end in range(1, len(pieces)))
            if owner := next((each for each in begins if each in owners), ""):
                raise name.place.error(
                    f"{name.text} begins with the name of {owner}, a view or its index, and a dot:"
                    " parts of a view have such names.",
                    cure="Choose another name for one of them.",
                    name=name.text,
                )


def _checked_sequences(
    drafts: Sequence[SequenceDraft],
    relations: dict[str, Relation],
    taken: set[str],
    spaces: Collection[str],
    problems: Problems,
) -> Iterator[DeclaredSequence]:
    for draft in _named_once(drafts, "sequence", problems, spaces=spaces):
        name, owner = draft.name, draft.sequence.owner
        with problems.collect((name.text, ""), about=[] if owner is None else [(owner[0], "")]):
            if name.text in taken:
                raise name.place.error(
                    f"Sequence {name.text} has the name of a relation, an index or a view.",
                    cure="Rename the sequence.",
                    name=name.text,
                )
            if owner is not None and not _has_column(relations, *owner):
                raise name.place.error(
                    f"Sequence {name.text} is OWNED BY {'.'.join(owner)}, and there is no such"
                    " column.",
                    cure="Name a column of a relation, or NONE.",
                    name=name.text,
                )
            yield draft.sequence


def _has_column(relations: dict[str, Relation], relation: str, column: str) -> bool:
    return relation in relations and column in relations[relation].visible_names
