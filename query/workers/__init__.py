"""DuckDB in separate processes, so that no statement can crash or block the server.

A scalar function of DuckDB may allocate any amount of memory and run for any time, and neither
DuckDB's memory limit nor its interrupt reaches into it. A statement therefore runs in a *worker*:
a process with an address-space limit, which is killed when the statement's time limit is over.

::

    server process                          fork server (one per server process)
    ┌──────────────────────────┐  control   ┌─────────────────────────────────┐
    │ DuckSession (session.py) │───────────▶│ has imported DuckDB and Arrow;  │
    │ Workers     (pool.py)    │            │ forks, kills and reaps workers  │
    │ Places      (places.py)  │            │ (forkserver.py)                 │
    │ WorkerProcess            │            └───────────────┬─────────────────┘
    │   (processes.py)         │                            │ fork: about 10 ms
    │                          │  requests and replies  ┌───▼───────────────┐
    │                          │◀──────────────────────▶│ worker: one       │
    └──────────────────────────┘  (messages.py)         │ DuckDB, one       │
                                                        │ session at a time │
                                                        │ (statements.py)   │
                                                        └───────────────────┘

`statements.py` does not depend on processes: for simulations, `InlineWorker` runs it in the caller.
Invariants: a worker serves one session at a time; a killed worker is never used again; a worker
keeps no state of an earlier session; when the server process dies, all its workers die.
"""
