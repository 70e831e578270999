"""Deferred views kept from changes: a SELECT compiled to a delta program.

A view at S1 is the view at S0 plus what its *delta program* makes of the changes of its relations
between the two snapshots, exactly: types, multiplicities, NULLs and empty groups included.

    SQL ─ binder ─► bound tree ─ translate ─► algebra ─ program ─► stages ─ refresh ─► mutations

* `relations.py`: tables, Z-sets, and DuckDB as the one place where expressions are evaluated, so
  that a view's values are the query engine's.
* `nesting.py`: the views that a view reads, written out.
* `expressions.py`, `calls.py`, `operators.py`, `translate.py`: from SQL to the five operators of
  `algebra.py`.
* `lookups.py`: rows at S0 of any operator, by some of its columns.
* `states.py`: what aggregates keep; `stages.py`: the steps of a program; `program.py`: compiling,
  and the executor that runs all of it in one process.

**Algebra.** A change is a Z-set: rows that come (+1) and rows that go (-1); an update is both.
With `Δ` for the change of an operator's rows from S0 to S1:

* Filter, projection, UNION ALL are linear: Δ(σR) = σ(ΔR), and so on. They are no stages; they
  happen on the way into one.
* Joins J(A, B) are linear in A, whether inner, left, semi or anti (`algebra.py` reduces the others
  to these). So ΔJ = J(ΔA, B1) + [J(A0, B1) - J(A0, B0)], and the bracket is empty but for rows of A
  whose join key occurs in ΔB. For an inner join it is A0 ⋈ ΔB. B1 is B0 + ΔB, and rows of one key
  are in one place: *everything is read at S0*. In a first build nothing is stored then, nothing is
  looked up, and joins are plain joins of the changes.
* Aggregates add what comes and take off what goes, per group, to the counts and sums of their
  state; the least of a group's values that stay is the first row of a prefix (`states.py`). A group
  gives its old row with -1 and its new one with +1.
* A comparison with a subquery's only value changes sides for the rows between the value it had and
  the one it has (`lookups.Between`).

Every operator can be asked for its rows at S0 by key, through others down to relations, indexes and
the state of aggregates; so operators nest, and aggregates may be joined and aggregated again.

**Why a batch may be run again**, wholly or in parts: stages read at S0 only and write rows for S1
only, and their results depend on their input as a set. So the same batch writes the same.

**Where it is from.** Change tables with a count per group, and their propagation through selection,
projection, join and aggregation: CloudTPS (seed 000, 4.3), which leaves out MIN and MAX under
deletion. Multiplicities of values (pre-aggregation), joins of all kinds from either side by look-up
(reverse join), stages between which rows are spread anew by the next key (distribution rounds):
VMS (seed 001, 4.3 and 4.4). There reverse joins and deltas are copies of the base rows; here
snapshots of the base relations and their indexes serve as both.

**What is refused**, with the reason: whatever has no such rule (ORDER BY, LIMIT, windows, other
aggregates), what is not the same twice (volatile functions), sums of floating-point numbers, whose
value depends on their order, NOT IN with NULLs, joins without an equality, and joins whose other
side cannot be looked up; there the cure names the index.
"""
