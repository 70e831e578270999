"""Incremental maintenance of deferred views: a SELECT compiled to a delta program.

A view at S1 is the view at S0 plus the output of its *delta program* over the changes of its
relations between the two snapshots. This is exact, including types, multiplicities, NULLs and
empty groups.

    SQL ─ binder ─► bound tree ─ translate ─► algebra ─ program ─► stages ─ refresh ─► mutations

* `relations.py`: tables, and DuckDB as the evaluator of expressions, so that a view's values equal
  the query engine's; `zsets.py`: changes as tables or as rows.
* `nesting.py`: replaces the views that a view reads by their SELECTs.
* `expressions.py`, `calls.py`, `windows.py`, `grouping_sets.py`, `set_operations.py`,
  `scalar_values.py`, `recursions.py`, `operators.py`, `translate.py`: from SQL to the eight
  operators of `algebra.py`; `decided.py` gives aggregates and windows a single result.
* `clock.py`: conditions on the current time, as comparisons with a value that each batch changes.
* `partials/`: partial aggregates below joins, as a rewrite of the algebra.
* `lookups.py`, `range_lookups.py`: look up rows of any operator at S0 by some of its columns, by
  ranges of one, or all of them; `access.py` chooses how.
* `keys.py`: values of one numeric type as keys and bounds of a column of another.
* `states.py`: the state of aggregates; `stages.py`: the steps of a program, computed by DuckDB;
  `program.py`: the compiler, and the executor that runs a whole program in one process.
* `rows/`: the same steps in Python's own loops, for inputs of few rows; `executors.py` chooses.
* `recursion_rows.py`: the stored rows of a recursion; `rows/recursion.py`: its stage.
* `batches.py`: a small batch of several views in one process, from segments of the log to puts;
  `catalog_programs.py`: the programs of a catalog.

**Algebra.** A change is a Z-set: inserted rows (+1) and deleted rows (-1); an update is both.
With `Δ` for the change of an operator's rows from S0 to S1:

* Filter, projection and UNION ALL are linear: Δ(σR) = σ(ΔR), and so on. They are not stages; the
  input of a stage applies them.
* Joins J(A, B) are linear in A, whether inner, left, semi or anti (`algebra.py` reduces the others
  to these). So ΔJ = J(ΔA, B1) + [J(A0, B1) - J(A0, B0)], and the bracket is empty except for rows
  of A whose join key occurs in ΔB. For an inner join the bracket is A0 ⋈ ΔB. B1 is B0 + ΔB, and
  rows of one key are in one partition, so *every read is at S0*. In a first build nothing is stored
  at S0, nothing is looked up, and joins are plain joins of the changes.
* Aggregates add inserted rows to the counts and sums of their state, per group, and subtract
  deleted rows. After deletions, the minimum of a group's remaining values is the first row of a
  prefix (`states.py`). A group emits its old row with -1 and its new row with +1.
* A partition (`Partition`) is computed again where its rows change: its result after, less its
  result before. The stage keeps the rows of its input, by partition (`stored_rows.py`).
* A recursion (`Recursion`) follows the rows that go, and then those that come, from step to step
  (`rows/recursion.py`). It keeps its rows, each with its number of derivations.
* A comparison with the only value of a subquery changes its result for the rows between the old
  and the new value (`lookups.Between`).

Every operator supports look-ups of its rows at S0 by key, through other operators down to
relations, indexes and the state of aggregates. So operators nest, and aggregates may be joined and
aggregated again.

**Why a batch may be run again**, wholly or in part: stages read at S0 only and write rows for S1
only, and their results depend on their input as a set. So the same batch writes the same rows.

**Sources.** Change tables with a count per group, and their propagation through selection,
projection, join and aggregation: CloudTPS (Nikolov 2011, 4.3), which leaves out MIN and MAX under
deletion. Multiplicities of values (pre-aggregation), joins of all kinds from either side by look-up
(reverse join), stages between which rows are repartitioned by the next key (distribution rounds):
VMS (Adler 2020, 4.3 and 4.4). In VMS, reverse joins and deltas are copies of the base rows; here
snapshots of the base relations and their indexes serve as both.

**Unsupported SELECTs** are refused with the reason: constructs without a rule above (ORDER BY,
LIMIT), windows and aggregates over all rows that have no delta rule, volatile functions, NOT IN
with NULLs, and joins whose other side cannot be looked up, by a key, a range, or whole because it
is small; there the cure names the missing index.
"""
