"""The life cycle of a view or an index, as a state machine.

::

                      ┌────────────────────── REBUILD ────────────────────────┐
                      │     ┌──────────────── FAILED ──────────────────────┐  │
                      ▼     │                                              ▼  │
    (created) ──▶ BUILDING ──BUILT──▶ CATCHING_UP ──CAUGHT_UP──▶ READABLE ──DAMAGED──▶ QUARANTINED
                      │                    │                      │                       │
                    DROP                 DROP                   DROP                    DROP
                      └────────────────────┴──────────┬───────────┴───────────────────────┘
                                                      ▼
                                                  DROPPING ──▶ (gone from the catalog)

BUILDING: every commit maintains it. A build writes the rows of a snapshot T with timestamp T, so
every later commit's write takes precedence (T may differ between key ranges:
`pipeline/build/executor.py`). CATCHING_UP: all rows of T are stored, but a reader may still use a
snapshot before T. READABLE: queries and maintenance may read it. QUARANTINED: it differs from its
base relations, or its build has failed; nothing reads or maintains it. DROPPING: nothing may read
or maintain it any more, and its table can be deleted. DROP also cancels a build.

Nothing maintains a quarantined view or index, so REBUILD requires a new incarnation
(`Catalog.incarnations`): in the old table, rows deleted since would reappear.
"""

from __future__ import annotations

import enum

from hornbeam_server.schema.catalog import State
from hornbeam_server.schema.errors import InvalidRequest


class Event(enum.StrEnum):
    """An event in the life cycle of a view or index."""

    BUILT = "built"
    """The build has written every row of its snapshot."""
    CAUGHT_UP = "caught up"
    """No reader can use a snapshot before the build's any more."""
    FAILED = "failed"
    """The build has ended with an error that it would meet again."""
    DAMAGED = "damaged"
    """The view or index was found to differ from its base relations."""
    REBUILD = "rebuild"
    DROP = "drop"
    """The view or index is no longer wanted. Cancels a build."""


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.BUILDING, Event.BUILT): State.CATCHING_UP,
    (State.BUILDING, Event.FAILED): State.QUARANTINED,
    (State.BUILDING, Event.DROP): State.DROPPING,
    (State.CATCHING_UP, Event.CAUGHT_UP): State.READABLE,
    (State.CATCHING_UP, Event.DROP): State.DROPPING,
    (State.READABLE, Event.DAMAGED): State.QUARANTINED,
    (State.READABLE, Event.DROP): State.DROPPING,
    (State.QUARANTINED, Event.REBUILD): State.BUILDING,
    (State.QUARANTINED, Event.DROP): State.DROPPING,
}


def transition(state: State, event: Event) -> State:
    """The state after `event`. Raises InvalidRequest for an edge that the diagram lacks."""
    after = TRANSITIONS.get((state, event))
    if after is None:
        possible = [e.value for s, e in TRANSITIONS if s is state]
        raise InvalidRequest(
            f"A view or index that is {state.value!r} cannot take the event {event.value!r}.",
            cure=f"Possible now: {', '.join(possible) or 'nothing, it is going away'}.",
            state=state.value,
            event=event.value,
        )
    return after
