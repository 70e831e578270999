"""Numbers of tables, identity columns and sequences in a new version of the catalog. Pure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from itertools import chain, count

from hornbeam_server.maintain.lifecycle import Event, transition
from hornbeam_server.schema.catalog import Catalog, State
from hornbeam_server.schema.counters import SEQUENCE, Beginning, Counter
from hornbeam_server.schema.errors import InvalidRequest, NotFound
from hornbeam_server.schema.model import DefaultKind
from hornbeam_server.schema.sequences import is_draw, sequences_in
from hornbeam_server.txlayer.ddl import load_records


def adopted_states(catalog: Catalog, built: Mapping[str, int]) -> tuple[tuple[str, State], ...]:
    """The states of `catalog` after the deferred views `built` become readable."""
    numbers = dict(catalog.incarnations)

    def after(name: str, state: State) -> State:
        if state is not State.BUILDING or built.get(name) != numbers.get(name, 0):
            return state
        return transition(transition(state, Event.BUILT), Event.CAUGHT_UP)

    return tuple((name, after(name, state)) for name, state in catalog.states)


def tables_of(catalog: Catalog) -> set[str]:
    """The physical tables of a catalog, including those that a load is filling."""
    stored = {catalog.layout(name).table for name in catalog.stored}
    return stored | set(load_records.tables(catalog).values())


def with_numbers(made: Catalog, current: Catalog, number: int) -> Catalog:
    """`made` with table numbers. A name gets a new table, with `number` or higher, when it is not
    in `current`, or when `made` gives it another number than it has there; a new load gets this
    number, too. A loaded name keeps its table, and so does a renamed one (`Catalog.stored_as`). A
    relation may get the table of its copy. A new relation or view whose name is the stored name of
    another one gets a stored name that no other has.
    Databases older than claims may have higher numbers."""
    known, asked = dict(current.incarnations), dict(made.incarnations)
    loaded = dict(current.loaded.incarnations) if made.load is None else known
    number = max([number, *(n + 1 for n in (*known.values(), *loaded.values()))])
    before = _numbered(current)
    free = {(current.stored_name(n), of.get(n, 0)) for n in before for of in (known, loaded)}
    free |= {(current.stored_name(c.relation), known[c.name]) for c in current.copies}
    renamed, kept = dict(made.stored_as), [n for n in made.plain_view if n in current.plain_view]
    for name in sorted(_numbered(made), key=lambda name: name not in renamed):
        wanted = asked.get(name, known.get(name, 0))
        place = (made.stored_name(name), wanted)
        if place in free and (name in current or name in renamed):
            kept.append(name)
        else:
            wanted = number
        free.discard(place)
        asked[name] = wanted
    numbered = replace(
        made,
        incarnations=tuple(asked.items()),
        stored_as=_stored_as(made, kept),
        beginnings=tuple(_begun(made, current, number)),
    )
    if made.load is None or made.load.number != load_records.NEW:
        return numbered
    return replace(numbered, load=replace(made.load, number=number))


def _stored_as(made: Catalog, kept: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """The stored names that are not their own, of all names in `made`. Those that are `kept` keep
    theirs."""
    stored = {name: made.stored_name(name) for name in kept}
    taken = {part for name in stored for part in _parts(made, name, stored[name])}
    for name in (*_numbered(made), *made.plain_view):
        if name not in stored:
            stored[name] = _free(made, name, taken)
            taken.update(_parts(made, name, stored[name]))
    return tuple(sorted(item for item in stored.items() if item[0] != item[1]))


def _free(made: Catalog, name: str, taken: Set[str]) -> str:
    """The stored name of `name` if all its parts are free; otherwise the first of `name..2`,
    `name..3`, … whose parts are free. A relation may also have such a name itself, for example as a
    quoted one: then the name is taken, or that relation gets another stored name."""
    first = made.stored_name(name)
    further = (f"{first}..{number}" for number in count(2))
    candidates = chain([first], further)
    return next(each for each in candidates if taken.isdisjoint(_parts(made, name, each)))


def _parts(made: Catalog, name: str, stored: str) -> list[str]:
    """The stored names of all layouts of `name` if its own is `stored`."""
    view = made.declared_view.get(name)
    return [stored + part.removeprefix(name) for part in (view.stored if view else (name,))]


def _numbered(catalog: Catalog) -> tuple[str, ...]:
    """The names that have table numbers."""
    views = (*catalog.view, *catalog.declared_view)
    return (*catalog.schema.names, *views, *catalog.index, *catalog.copy)


def _begun(made: Catalog, current: Catalog, number: int) -> Iterator[Beginning]:
    """The beginnings of counters with their numbers: `number` for new and restarted counters, the
    present number for the others. A column that goes from its identity to a new sequence, or from a
    sequence to an identity, keeps its counter: no number is given twice."""
    known = {(b.relation, b.column): b for b in current.beginnings}
    taken_over = _taken_over(made, current)
    kept = {(b.relation, b.column): b for b in made.beginnings if b.cell}
    again = {(b.relation, b.column): b for b in made.beginnings if b.number == load_records.NEW}
    for key, counter in made.counters.items():
        if key in kept and key not in again:
            yield kept[key]
        elif key in taken_over:
            yield taken_over[key]
        elif key not in current.counters:
            yield Beginning(*key, number, counter.identity.start)
        elif key in again:
            yield replace(again[key], number=number)
        elif key in known:
            yield known[key]


def _taken_over(made: Catalog, current: Catalog) -> dict[tuple[str, str], Beginning]:
    """The beginnings of new counters that continue one that `made` lacks."""
    begun = {(b.relation, b.column): b for b in current.begun}
    found = {}
    for relation in made.schema.relations:
        before = dict(_sources(current, relation.name))
        for column, new in _sources(made, relation.name):
            old = before.get(column)
            ends = old is not None and old not in made.counters
            if ends and old in begun and new not in begun:
                cell = begun[old].cell or "\0".join(old)
                found[new] = replace(begun[old], relation=new[0], column=new[1], cell=cell)
    return found


def _sources(catalog: Catalog, relation: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """The columns of a relation that take their numbers from a counter, with its key."""
    if relation not in catalog.schema:
        return
    for column in catalog.schema.relation(relation).visible:
        default = column.default
        if default is None:
            continue
        if default.kind is DefaultKind.IDENTITY:
            yield column.name, (relation, column.name)
        elif is_draw(default.sql):
            counter = catalog.sequences[sequences_in(default.sql)[0]]
            yield column.name, (counter.relation, counter.column)


def counter_of(catalog: Catalog, key: tuple[str, str]) -> Counter:
    """The counter of an identity column, by (relation, column). Raises NotFound."""
    hidden = {(r.name, c.name) for r in catalog.schema.relations for c in r.columns if c.hidden}
    counter = None if key in hidden else catalog.counters.get(key)
    if counter is None:
        known = ", ".join(".".join(one) for one in catalog.counters if one not in hidden)
        raise NotFound(
            f"{'.'.join(filter(None, key))} is no identity column and no sequence.",
            cure=f"There are: {known or 'none'}.",
        )
    return counter


def restarted(current: Catalog, key: tuple[str, str], at: int | None) -> Catalog:
    """`current` with an identity column, (relation, column), whose numbers begin again at `at`
    (None: at its declared start). Raises NotFound, InvalidRequest."""
    counter = counter_of(current, key)
    begins = counter.identity.start if at is None else at
    up = counter.identity.increment > 0
    relation, column = key
    # setval to the last number of a sequence leaves none.
    end = counter.last + counter.identity.increment * (relation == SEQUENCE)
    if (end < begins) if up else (begins < end):
        raise InvalidRequest(
            f"{relation}.{column} cannot begin with {begins}: its last number is {counter.last}.",
            cure="Begin at that number or behind it.",
        )
    others = [b for b in current.beginnings if (b.relation, b.column) != key]
    begun = Beginning(relation, column, load_records.NEW, begins)
    return replace(current, version=current.version + 1, beginnings=(*others, begun))


def reads_alike(made: Catalog, current: Catalog) -> bool:
    """Whether older snapshots are read under `made` as under `current`: only counters that are
    restarted, and comments, differ."""
    same = replace(made, version=current.version, since=current.since)
    return replace(same, beginnings=current.beginnings, comments=current.comments) == current


async def turned(
    made: Catalog, current: Catalog, first: Callable[[Counter, Counter], Awaitable[int]]
) -> Catalog:
    """`made` with new counters for those that count in the other direction than in `current`, and
    do not begin again. `first` gives the first number of such a counter, before and after."""
    again = {(b.relation, b.column) for b in made.beginnings if b.number == load_records.NEW}
    begun: list[Beginning] = []
    for key, after in made.counters.items():
        before = current.counters.get(key)
        if before is None or key in again:
            continue
        if before.identity.increment * after.identity.increment < 0:
            begun.append(Beginning(*key, load_records.NEW, await first(before, after)))
    keys = {(b.relation, b.column) for b in begun}
    others = [b for b in made.beginnings if (b.relation, b.column) not in keys]
    return replace(made, beginnings=(*others, *begun)) if begun else made


def number_of(table: str) -> int:
    return int(table.rpartition(".")[2])
