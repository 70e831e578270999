import pytest

from hornbeam_server.maintain.lifecycle import TRANSITIONS, Event, transition
from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.errors import InvalidRequest


def test_a_view_passes_through_build_damage_rebuild_and_drop():
    state = State.BUILDING
    seen = []
    for event in (Event.BUILT, Event.CAUGHT_UP, Event.DAMAGED, Event.REBUILD, Event.DROP):
        state = transition(state, event)
        seen.append(state)
    assert seen == [
        State.CATCHING_UP,
        State.READABLE,
        State.QUARANTINED,
        State.BUILDING,
        State.DROPPING,
    ]


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_a_transition_outside_the_table_is_refused(state, event):
    if (state, event) in TRANSITIONS:
        assert transition(state, event) is TRANSITIONS[state, event]
    else:
        with pytest.raises(InvalidRequest, match=event.value) as refused:
            transition(state, event)
        assert refused.value.cure


@pytest.mark.parametrize("state", [state for state in State if state is not State.DROPPING])
def test_every_state_can_be_dropped(state):
    assert transition(state, Event.DROP) is State.DROPPING


def test_dropping_is_a_final_state():
    assert not any(state is State.DROPPING for state, _ in TRANSITIONS)
