"""The second executor of delta programs: the same stages over few rows, in Python's own loops.

A statement of DuckDB takes milliseconds however few rows it reads, and a stage needs several. So a
small input is worked off row by row: expressions are compiled by `query/expressions`, joins and
groups are dictionaries.

* `parsing.py`: parses the expressions of a program, and puts one projection into another.
* `maps.py`: filters and projections as closures over rows.
"""
