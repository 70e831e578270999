"""Immediate views over foreign-key joins, maintained in the writing transaction.

    SELECT ─ binder, deltas/translate ─► algebra ─ stars ─► Star ─ program ─► Addition per group

* `stars.py`: finds the *star* in a view's SELECT: one fact relation, and parents that it reaches
  along declared foreign keys. So each row of the fact gives at most one joined row.
* `definition.py`: how the view is stored, and which SELECTs are refused with the reason.
* `program.py`: from the changes of a transaction to the amounts that it adds to each group.
* `reading.py`: HAVING and expressions over aggregates, which readers compute.
* `projected.py`: views without aggregates, which are ordinary rows.
* `build.py`: the amounts and rows that are there when a view is declared.

**Law.** For the state B before and B′ after a transaction, `view(B)` plus the additions is
`view(B′)`, group by group: incremental = recomputed.

**Why no lock on a group.** A transaction never reads a group that it changes; it adds to it. Sums
commute, so two transactions may add to one group at the same time (docs/protocols/lanes.md). But
both must see the same joined rows: a transaction that changes what a row of the fact contributes
holds the existence of every parent in the joined row, and a transaction that changes a parent holds
it exclusively (`Workspace.lock_joined`, txlayer/transactions/workspace.py).

Source: CloudTPS (Nikolov 2011, section 4.3), which takes a lock on each group.
"""
