"""Groups of deferred views: batches follow one another, and snapshots that they need are kept."""

import asyncio
from dataclasses import replace

import pytest

from hornbeam_server.maintain.deltas.catalog_programs import all_readable
from hornbeam_server.schema.catalog import Catalog, State
from hornbeam_server.schema.errors import Corruption, StalePlan
from hornbeam_server.schema.model import DeclaredView
from hornbeam_server.schema.views import DeferredView
from hornbeam_server.storage.local.coordination import LocalCoordination
from hornbeam_server.txlayer.views.refresh_groups import (
    Batch,
    Finished,
    Groups,
    GroupState,
    groups_of,
    members,
    usable,
)
from tests.txlayer.database_world import shop

HOUR = 3_600_000
NOW = 1_000 * HOUR
DONE = Finished(5, 2, 0.5)


def deferred(*names: str, group: str = "default") -> tuple[DeferredView, ...]:
    declared = (DeclaredView(name, "SELECT 1", group=group) for name in names)
    return tuple(DeferredView(view, ("customer",), (), (), (), ()) for view in declared)


def catalog(version: int, *views: DeferredView, **numbers: int) -> Catalog:
    incarnations = tuple((view.name, numbers.get(view.name, 1)) for view in views)
    base = all_readable(shop())
    return replace(base, version=version, deferred=views, incarnations=incarnations)


ONE = catalog(3, *deferred("a", "b"))


def batch_after(state: GroupState, of: Catalog, upto: int) -> GroupState:
    return state.begun(of, "default", upto).finished(upto, DONE, upto + 10, HOUR)


def oldest(state: GroupState, wall_ms: int, use_ms: int) -> int:
    """The oldest snapshot that a group needs; 0: it needs none."""
    return min(state.needed(wall_ms, use_ms), default=0)


def test_a_batch_takes_all_views_of_its_group_to_one_snapshot():
    both = catalog(3, *deferred("a", "b"), *deferred("c", group="other"), b=7)
    assert groups_of(both) == ("default", "other")
    assert members(both, "default") == {"a": 1, "b": 7}
    begun = GroupState().begun(both, "default", NOW)
    assert begun == GroupState(batch=Batch(NOW, 3, {"a": 1, "b": 7}))
    done = begun.finished(NOW, DONE, NOW + 1, HOUR)
    assert done == GroupState(NOW, 3, {"a": 1, "b": 7}, None, DONE)
    assert done.finished(NOW, DONE, NOW + 2, HOUR) == done
    assert done.finished(NOW - 1, DONE, NOW + 2, HOUR) == done
    with pytest.raises(StalePlan):
        done.finished(NOW + 1, DONE, NOW + 2, HOUR)


def test_earlier_snapshots_of_a_group_stay_valid_until_its_views_change():
    first = batch_after(GroupState(), ONE, NOW)
    second = batch_after(first, ONE, NOW + 5)
    assert [at for at in range(NOW - 1, NOW + 7) if second.was_as_of(at)] == [NOW, NOW + 5]
    grown = batch_after(second, catalog(4, *deferred("a", "b", "c")), NOW + 9)
    assert [at for at in range(NOW - 1, NOW + 12) if grown.was_as_of(at)] == [NOW + 9]
    rebuilt = batch_after(second, catalog(4, *deferred("a", "b"), b=2), NOW + 9)
    assert rebuilt.before == ()
    assert rebuilt.holds(catalog(4, *deferred("a", "b"), b=2), "b")
    assert not second.holds(catalog(4, *deferred("a", "b"), b=2), "b")
    assert not GroupState().was_as_of(NOW)


def test_the_start_of_a_batch_is_kept_until_it_is_finished():
    assert oldest(GroupState(), NOW, HOUR) == 0
    building = GroupState().begun(ONE, "default", NOW)
    assert oldest(building, NOW + 50 * HOUR, HOUR) == NOW - 1  # it puts rows at NOW
    done = batch_after(GroupState(), ONE, NOW)
    assert oldest(done, NOW + 50 * HOUR, HOUR) == NOW
    assert oldest(done.begun(ONE, "default", NOW + 5), NOW + 50 * HOUR, HOUR) == NOW


def test_late_puts_of_a_finished_batch_stay_hidden():
    """The batch was begun again long after its snapshot; another process has finished it."""
    state = batch_after(GroupState(), ONE, NOW).begun(ONE, "default", NOW + 5)
    finished = NOW + 9 * HOUR
    state = state.finished(NOW + 5, DONE, finished, HOUR)
    for upto in (finished + 5, finished + 10):
        state = state.begun(ONE, "default", upto).finished(upto, DONE, upto + 1, HOUR)
    assert state.as_of == finished + 10
    assert oldest(state, finished + HOUR - 1, HOUR) == NOW
    assert oldest(state, finished + HOUR, HOUR) == NOW + 5  # the next batch began here
    assert oldest(state, finished + HOUR + 6, HOUR) == finished + 10
    last = batch_after(batch_after(state, ONE, finished + 2 * HOUR), ONE, finished + 4 * HOUR)
    assert [one.at for one in last.left] == [finished + 2 * HOUR]


def test_the_snapshot_before_a_long_pause_is_kept_for_a_while():
    state = batch_after(GroupState(), ONE, NOW)
    now = NOW + 5 * HOUR
    state = batch_after(state, ONE, now)
    assert oldest(state, now + HOUR // 2, HOUR) == NOW
    assert oldest(batch_after(state, ONE, now + 5), now + HOUR // 2, HOUR) == NOW
    assert oldest(state, now + 2 * HOUR, HOUR) == now
    building = GroupState().begun(ONE, "default", NOW)
    late = building.finished(NOW, DONE, now, HOUR)
    assert oldest(late, now + 1, HOUR) == NOW - 1


def test_usable_relations_exist_unchanged_in_all_catalogs():
    before = replace(shop(), states=tuple((n, State.READABLE) for n, _ in shop().states))
    names = [index.name for index in before.indexes]
    states = dict(before.states) | {names[0]: State.BUILDING}
    numbers = ((names[1], 2),)
    now = replace(before, states=tuple(states.items()), incarnations=numbers)
    everything = frozenset(dict(before.states))
    assert usable([], before) == usable([before], before) == everything
    assert usable([before], now) == usable([now], before) == everything - {names[0], names[1]}
    gone = names[0]
    states = tuple(item for item in before.states if item[0] != gone)
    fewer = replace(before, indexes=before.indexes[1:], states=states)
    assert usable([before, fewer], before) == everything - {gone}


async def moment(of: Catalog, at: int) -> tuple[Catalog, int]:
    return of, at


async def test_concurrent_begins_return_the_same_batch(tmp_path):
    coordination = LocalCoordination.open(tmp_path)
    groups = Groups(coordination)
    other = asyncio.Event()

    async def slow(as_of: int) -> tuple[Catalog, int]:
        assert as_of == 0
        await other.wait()
        return ONE, NOW

    late = asyncio.ensure_future(groups.begin("default", slow))
    await asyncio.sleep(0)
    first = await groups.begin("default", lambda _: moment(ONE, NOW + 1))
    other.set()
    assert await late == first
    assert first.batch == Batch(NOW + 1, 3, {"a": 1, "b": 1})
    again = await groups.begin("default", lambda _: moment(ONE, NOW + 2))
    assert again == first

    done = await groups.finish("default", NOW + 1, DONE, NOW + 3, HOUR)
    assert done.as_of == NOW + 1
    assert await groups.finish("default", NOW + 1, DONE, NOW + 4, HOUR) == done
    assert await groups.state("default") == done
    assert await groups.state("Default/é") == GroupState()
    await coordination.close()


async def test_an_unreadable_state_raises_corruption(tmp_path):
    coordination = LocalCoordination.open(tmp_path)
    await coordination.write("deferred/" + b"x".hex(), b"{", 0)
    with pytest.raises(Corruption, match="group x"):
        await Groups(coordination).state("x")
    await coordination.close()
