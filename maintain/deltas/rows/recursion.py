"""The stage of a recursion: delete and derive again, with counts of derivations.

With the rows A of the start, the rows B with which a step joins, and R the result:

* UNION ALL: R = A + R ⋈ B, with as many copies of a row as it has derivations. First the rows that
  go are followed through the rows of B that stay, and their derivations are taken away. Then the
  rows that come are followed through B1. Both times the rows that are followed are rows of a finite
  result, of that before or of that after, so both end.
* UNION: R is what can be reached from A. A row that loses a derivation is taken out, and so is each
  row that is derived from it, since rows that only derive each other keep a derivation. Of these,
  the rows that still have a derivation from rows that stayed are put back: their counts say so,
  and no derivation is looked for backwards. Then rows that come are followed, once each. (Gupta,
  Mumick and Subrahmanian: Maintaining Views Incrementally, section 7; Hu, Motik and Horrocks:
  Optimised Maintenance of Datalog Materialisations, section 5.)

A row is followed by the rows of B that have its key, which are looked up as of S0. Loops over rows
do the work, of any number of rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from hornbeam_server.maintain.deltas.algebra import Map, Recursion, null_of
from hornbeam_server.maintain.deltas.keys import stored_keys
from hornbeam_server.maintain.deltas.lookups import Lookup
from hornbeam_server.maintain.deltas.planned import Planned
from hornbeam_server.maintain.deltas.recursion_rows import Counts, RecursionRows
from hornbeam_server.maintain.deltas.relations import Field, Fields, evaluate, from_rows
from hornbeam_server.maintain.deltas.rows.joins import RowJoin, row_join
from hornbeam_server.maintain.deltas.rows.lookups import RowLookup, row_lookup
from hornbeam_server.maintain.deltas.rows.maps import compile_maps
from hornbeam_server.maintain.deltas.rows.parsing import NotCompiledError
from hornbeam_server.maintain.deltas.stages import LEFT, SIDE, Input, StageResult
from hornbeam_server.maintain.deltas.zsets import Weighted, ZSet
from hornbeam_server.query.dialect.duckdb_types import quoted
from hornbeam_server.schema.errors import LimitExceeded
from hornbeam_server.schema.types import ColumnType, Kind, Row
from hornbeam_server.storage.snapshot import RowReader

MAX_ROUNDS, MAX_ROWS = 10_000, 1_000_000
"""The maximum of rounds of a recursion, and of rows that are followed, in one batch."""
_TIMES = Field("_times", "BIGINT", ColumnType(Kind.BIGINT), nullable=False)
Project = Callable[[Counts], "Counter[Row]"]
"""A filter and projection of rows, each with its number."""


def input_map(node: Recursion, side: int) -> Map:
    """The projection from rows of the start (`LEFT`) or of the joined side to rows of the input."""
    mine = node.inputs[side]
    both = (*node.fields, *node.other)
    given = mine.field
    columns = [quoted(f.name) if f.name in given else null_of(f) for f in both]
    passes = {name: name for name in given}
    return Map(mine, (*both, SIDE), (*columns, str(side)), "", passes, None)


@dataclass(frozen=True, eq=False)
class RecursionStage(Planned):
    """`other` looks up rows that a step joins with; None without a join."""

    node: Recursion
    kept: RecursionRows
    inputs: tuple[Input, ...]
    other: Lookup | None
    partition_by: tuple[str, ...] = ()

    @property
    def columns(self) -> Fields:
        return (*self.node.fields, *self.node.other, SIDE)

    @property
    def output(self) -> Fields:
        return self.node.fields

    @cached_property
    def step(self) -> Step:
        return Step.of(self.node, self.other)

    async def run(self, zset: ZSet, old: RowReader) -> StageResult:
        return await self.over(zset.rows, old)

    async def over(self, zset: Sequence[Weighted], old: RowReader) -> StageResult:
        """`run` over rows."""
        width = len(self.node.fields)
        start, other = Change(), Change()
        for row, weight in zset:
            if row[-1] == LEFT:
                start.add(row[:width], weight)
            else:
                other.add(row[width:-1], weight)
        if not start and not other:
            return StageResult(ZSet(self.output), [])
        batch = _Batch(self, old, start, other)
        before, after = await batch.counts()
        changed = list(self._changed(before, after))
        return StageResult(
            ZSet(self.output, rows=changed), list(self.kept.mutations(before, after))
        )

    def _changed(self, before: Counts, after: Counts) -> Iterator[Weighted]:
        for row, count in after.items():
            more = count - before[row]
            if self.node.distinct:
                more = bool(count) - bool(before[row])
            yield from [(row, 1 if more > 0 else -1)] * abs(more)

    def words(self) -> Iterator[str]:
        union = "UNION" if self.node.distinct else "UNION ALL"
        yield f"recursion ({union}) from changed rows, deletions included"
        if self.other is not None:
            yield f"joined rows: {self.other.words()}"
        for state, order in zip(self.kept.states, self.kept.orders, strict=True):
            by = f", by ({', '.join(order)})" if order else ""
            yield f"state {state.name}: all rows with their numbers of derivations{by}"


class Change:
    """The rows that come and those that go. A row that does both does neither."""

    def __init__(self) -> None:
        self._net: Counter[Row] = Counter()

    def add(self, row: Row, weight: int) -> None:
        self._net[row] += weight

    def __bool__(self) -> bool:
        return any(self._net.values())

    @property
    def coming(self) -> Counter[Row]:
        return +self._net

    @property
    def going(self) -> Counter[Row]:
        return -self._net


@dataclass(frozen=True)
class Step:
    """A step over rows. Without a `join` it applies `after` alone."""

    before: Project
    join: RowJoin | None
    after: Project
    lookup: RowLookup | None
    given: Fields
    """The columns of the keys of joined rows, by which rows of the recursion are looked up."""
    targets: Fields
    places: tuple[int, ...]
    """The columns of the recursion's order, and for each the place of its value in a key."""

    @staticmethod
    def of(node: Recursion, lookup: Lookup | None) -> Step:
        if node.join is None:
            after = _project(node.after, node.fields)
            return Step(Counter, None, after, None, (), (), ())
        assert lookup is not None
        join = node.join
        both = (*join.left.fields, *join.right.fields)
        right = tuple(join.right.field[name] for _, name in join.keys)
        origins = [_origin(name, node.before) for _, name in join.keys]
        return Step(
            _project(node.before, node.fields),
            row_join(join),
            _project(node.after, both),
            row_lookup(lookup, right),
            tuple(join.left.field[name] for name, _ in join.keys),
            tuple(node.field[name] for name in node.order),
            tuple(origins.index(name) for name in node.order),
        )

    def prefixes(self, others: Iterable[Row]) -> list[Row]:
        """The values of the recursion's order in the rows that join with `others`."""
        assert self.join is not None
        keys = [self.join.left_key(row) for row in others]
        picked = [tuple(key[i] for i in self.places) for key in keys]
        given = tuple(self.given[i] for i in self.places)
        return stored_keys(picked, given, self.targets)

    def joined(self, rows: Counts, others: Counts) -> Counter[Row]:
        """What a step derives from rows by joining them with `others`."""
        assert self.join is not None
        right = self.before(rows)
        by_key, listed = self.join.by_key(right), list(others)
        pairs: Counter[Row] = Counter()
        for row, found in zip(listed, self.join.results(listed, by_key), strict=True):
            for pair in found:
                pairs[pair] += others[row] * right[pair[len(row) :]]
        return self.after(pairs)


def _origin(name: str, maps: Sequence[Map]) -> str:
    for map_ in reversed(maps):
        name = map_.passes[name]
    return name


def _project(maps: Sequence[Map], fields: Fields) -> Project:
    """A chain of filters and projections over rows of `fields`."""
    if not maps:
        return Counter
    try:
        compiled = compile_maps(maps, fields, stored=False)
    except NotCompiledError:
        return lambda rows: _by_duckdb(maps, fields, rows)
    return lambda rows: _summed(compiled.weighted(rows.items()))


def _by_duckdb(maps: Sequence[Map], fields: Fields, rows: Counts) -> Counter[Row]:
    if not rows:
        return Counter()
    select = "rows"
    for map_ in maps:
        select = f"({map_.select(select, _TIMES.name)})"
    given = from_rows((*fields, _TIMES), [(*row, times) for row, times in rows.items()])
    output = (*maps[-1].fields, _TIMES)
    found = evaluate(f"SELECT * FROM {select}", {"rows": given}, output).rows()
    return _summed((row[:-1], row[-1]) for row in found)  # type: ignore[misc]


def _summed(rows: Iterable[Weighted]) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for row, times in rows:
        found[row] += times
    return found


class _Batch:
    """One batch: what changes in the numbers of derivations."""

    def __init__(self, stage: RecursionStage, old: RowReader, start: Change, other: Change) -> None:
        self._stage, self._old, self._step = stage, old, stage.step
        self._start, self._other = start, other
        self._distinct = stage.node.distinct
        self._before: dict[Row, int] = {}
        """The numbers of derivations at S0, of the rows that were read."""
        self._stored: dict[Row, Counter[Row]] = {}
        """Key → the joined rows at S0, of the keys that were read."""
        self._gone, self._come = self._by_key(other.going), self._by_key(other.coming)
        self._rounds = self._rows = 0

    async def counts(self) -> tuple[Counts, Counts]:
        """The numbers of derivations of all rows that lose or get some, before and after."""
        lost, out = await self._lost()
        got = await self._got(lost, out)
        rows = list({**lost, **got})
        await self._read(rows)
        before = {row: self._before[row] for row in rows}
        return before, {row: before[row] - lost[row] + got[row] for row in rows}

    async def _lost(self) -> tuple[Counter[Row], set[Row]]:
        """The derivations that rows lose, and of UNION the rows that are taken out."""
        lost = self._start.going
        lost.update(await self._derived_by(self._other.going, Counter(), set()))
        out: set[Row] = set()
        new: Counts = lost
        while new:
            if self._distinct:
                new = Counter(row for row in new if row not in out)
                out.update(new)
            more = await self._derived(new, after=False)
            lost.update(more)
            new = more
        return lost, out

    async def _got(self, lost: Counter[Row], out: set[Row]) -> Counter[Row]:
        """The derivations that rows get. `out` are followed again if they keep a derivation."""
        got = self._start.coming
        got.update(await self._derived_by(self._other.coming, lost, out))
        await self._read(out)
        new: Counts = got
        if self._distinct:
            new = got + Counter(row for row in out if self._before[row] > lost[row])
        there: set[Row] = set()
        while new:
            if self._distinct:
                await self._read(new)
                new = Counter(
                    row for row in new if row not in there and (row in out or not self._before[row])
                )
                there.update(new)
            more = await self._derived(new, after=True)
            got.update(more)
            new = more
        return got

    async def _derived(self, rows: Counts, *, after: bool) -> Counter[Row]:
        """What is derived from rows by one step, through the joined rows that stay, and `after`
        through those that come, too. Raises LimitExceeded."""
        self._take(len(rows))
        if not rows:
            return Counter()
        join = self._step.join
        if join is None:
            return self._step.after(rows)
        keys = [key for key in map(join.right_key, self._step.before(rows)) if None not in key]
        others: Counter[Row] = Counter()
        for key, found in (await self._partners(dict.fromkeys(keys))).items():
            others.update(found)
            others.subtract(self._gone.get(key, {}))
            if after:
                others.update(self._come.get(key, {}))
        return self._step.joined(rows, +others)

    async def _derived_by(self, others: Counter[Row], lost: Counts, out: set[Row]) -> Counter[Row]:
        """What is derived by joined rows that change from the rows at S0, without what these have
        lost."""
        if not others:
            return Counter()
        found = await self._stage.kept.by_prefix(self._old, self._step.prefixes(others))
        self._before.update(found)
        if self._distinct:
            rows = Counter(row for row in found if row not in out)
        else:
            rows = +Counter({row: n - lost.get(row, 0) for row, n in found.items()})
        return self._step.joined(rows, others)

    async def _partners(self, keys: Iterable[Row]) -> dict[Row, Counter[Row]]:
        """The joined rows at S0 that have one of the distinct keys."""
        keys, join, lookup = list(keys), self._step.join, self._step.lookup
        assert join is not None
        assert lookup is not None
        missing = [key for key in keys if key not in self._stored]
        if missing:
            found: dict[Row, Counter[Row]] = defaultdict(Counter)
            for row in await lookup(self._old, missing):
                found[join.left_key(row)][row] += 1
            self._stored.update({key: found.get(key, Counter()) for key in missing})
        return {key: self._stored[key] for key in keys}

    def _by_key(self, rows: Counter[Row]) -> dict[Row, Counter[Row]]:
        join, found = self._step.join, defaultdict[Row, Counter[Row]](Counter)
        for row, times in rows.items():
            assert join is not None
            found[join.left_key(row)][row] += times
        return found

    async def _read(self, rows: Iterable[Row]) -> None:
        """Read the numbers of derivations of rows at S0."""
        missing = [row for row in rows if row not in self._before]
        self._before.update(await self._stage.kept.counts(self._old, missing))

    def _take(self, rows: int) -> None:
        self._rounds += 1
        self._rows += rows
        if self._rounds > MAX_ROUNDS or self._rows > MAX_ROWS:
            raise LimitExceeded(
                f"A recursion follows more than {MAX_ROWS} rows, or in more than {MAX_ROUNDS}"
                " rounds: it may have no end.",
                cure="Write UNION instead of UNION ALL, CYCLE, or a condition on the depth; if it"
                " has an end, WITH (refresh = 'recompute').",
            )
