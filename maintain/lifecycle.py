"""The life of a view or an index, from its first row to its last.

::

                      ┌───────────── REBUILD ──────────────┐
                      ▼                                    │
    (created) ──▶ BUILDING ──BUILT──▶ CATCHING_UP ──CAUGHT_UP──▶ READABLE ──DAMAGED──▶ QUARANTINED
                      │                    │                      │                       │
                    DROP                 DROP                   DROP                    DROP
                      └────────────────────┴──────────┬───────────┴───────────────────────┘
                                                      ▼
                                                  DROPPING ──▶ (gone from the catalog)

BUILDING: every commit maintains it, and a build writes the rows of a snapshot T, with timestamp
T, so that whatever a commit has written since wins by itself (T may differ from range to range of
keys: `pipeline/building.py`). CATCHING_UP: all rows of T are
there, but a reader could still stand before T. READABLE: queries and maintenance may read it.
QUARANTINED: it was found to differ from its base relations; nobody reads or keeps it.
DROPPING: nobody may read or keep it any more, its table can go. A build is cancelled by DROP.

A quarantined thing was not kept meanwhile, so REBUILD must come with a new incarnation
(`Catalog.incarnations`): in the old table, rows deleted meanwhile would shine through.
"""

from __future__ import annotations

import enum

from schema.catalog import State
from schema.errors import InvalidRequest


class Event(enum.StrEnum):
    """What happens to a view or index."""

    BUILT = "built"
    """The build has written every row of its snapshot."""
    CAUGHT_UP = "caught up"
    """No snapshot before the build's can be asked for any more."""
    DAMAGED = "damaged"
    """It was found to differ from its base relations."""
    REBUILD = "rebuild"
    DROP = "drop"
    """Not wanted any more; cancels a build."""


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.BUILDING, Event.BUILT): State.CATCHING_UP,
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
            f"a view or index that is {state.value!r} cannot take the event {event.value!r}",
            cure=f"possible now: {', '.join(possible) or 'nothing, it is going away'}",
            state=state.value,
            event=event.value,
        )
    return after
