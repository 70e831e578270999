"""Files of sqllogictest, of this project and of others, run against an embedded database.

`make sqllogic` fetches the corpora of DuckDB, SQLite, RisingLight, RisingWave and CockroachDB, and
PostgreSQL's regression tests (`psql.py`), at pinned commits, runs them, and writes the counts into
docs/sql.md. The suite runs the files in `files/`, and samples of the corpora if they have been
fetched before.
"""
