"""A whole cluster in one Python process, under one seed: services, machines, network and time.

Production code runs unchanged over these adapters. Everything that happens is decided by a
seeded generator (`chaos.py`) and ordered by a virtual clock (`loop.py`), so that a run can be
repeated exactly. PYTHONHASHSEED must be the same, since the order of sets depends on it.

Fault model

- Time. Every request and every reply takes time; calls overtake one another. Now and then one
  service answers one process late for seconds, while the session of that process stays alive. Wall
  clocks of processes are skewed and jump, forwards and backwards; monotonic time is right.
- Network. A request is lost, comes late, twice, or after its sender has crashed. A reply is lost
  after the request took effect, so that the caller does not know the outcome. Connections between
  members break. Two members cannot reach each other for a while; all other processes reach both.
- Table store. The rows of one put travel in several messages, each of which takes effect at a time
  of its own: rows become visible in any order and interleave with all other calls. A put that
  fails has written any subset of the messages. Calls fail before or after their effect; the service
  is away for a while. Rows that are not flushed are lost in part when the machine stops.
- Log. An append fails before or after it is written, or half way; unsynced bytes are torn by
  sectors when the machine stops; the disk is full for a while; stored bits flip; an owner is
  fenced off by its successor.
- Processes. They crash between any two steps of the event loop. They freeze and go on later without
  knowing that time has passed (all their timers come due at once).
- Coordination. Sessions expire, also those of frozen processes, which then go on without knowing
  it.

Not modelled: a store that returns rows that were never written or loses flushed rows (its checksums
are trusted), a service that breaks a promise of its port, and timestamps that the store assigns
(Hornbeam uses none).
"""
