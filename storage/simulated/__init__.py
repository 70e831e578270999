"""A whole cluster in one Python process, under one seed: services, machines, network and time.

Production code runs unchanged over these adapters. Everything that happens is decided by a
seeded generator (`chaos.py`) and ordered by a virtual clock (`loop.py`), so that a run can be
repeated exactly. PYTHONHASHSEED must be the same, since the order of sets depends on it.

Fault model

- Time. Every call to a service takes time there and back; calls overtake one another. Now and then
  one service answers one process late for seconds, while nobody takes that for dead. Wall clocks
  of processes are skewed and jump, forwards and backwards; monotonic time is right.
- Network. A request is lost, comes late, twice, or after its sender is gone; a reply is lost after
  the request took effect, so that the caller does not know. Connections between members break off;
  two members hear nothing of each other for a while, and all else hears both.
- Table store. Each row is written at a moment of its own: the rows of one put may become visible
  in any order and interleave with everything else; a put that fails has written any part. Calls
  fail before or after their effect; the service is away for a while. What is not flushed is lost
  in part when the machine stops.
- Log. An append fails before or after it is written, or half way; unsynced bytes are torn by
  sectors when the machine stops; the disk is full for a while; stored bits flip; an owner is
  fenced off by its successor.
- Processes. They crash between any two steps of the event loop, and stop and go on later, not
  knowing that time has passed (their timers all come due at once).
- Coordination. Sessions expire, of frozen processes too, which then wake up as zombies.

Not modelled: a store that gives back what was never written or forgets what was flushed (its
checksums are trusted), a service that answers other than its port promises, and timestamps of the
store's own making (we never use them).
"""
