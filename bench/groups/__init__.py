"""The group benchmark: what a total of a hot group costs its writers, and what it saves its
readers.

`python -m bench.groups` measures Hornbeam in one process next to PostgreSQL, `python -m
bench.groups.nodes` measures one and three nodes on HBase.
"""
