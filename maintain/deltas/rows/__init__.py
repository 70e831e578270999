"""The second executor of delta programs: the same stages over few rows, in Python's own loops.

A statement of DuckDB takes milliseconds however few rows it reads, and a stage needs several. So a
small input is worked off row by row: expressions are compiled by `query/expressions`, joins and
groups are dictionaries. All reads and results equal those of the stages in `deltas/stages.py`, to
the bit.

* `parsing.py`: parses the expressions of a program, and puts one projection into another.
* `maps.py`: filters and projections as closures over rows.
* `inputs.py`, `lookups.py`, `joins.py`, `groups.py`: the parts of stages; `stages.py`: the stages.
* `numbers.py`: sums as DuckDB computes and converts them.

An expression that is not compiled is evaluated by DuckDB over the few rows.
"""
