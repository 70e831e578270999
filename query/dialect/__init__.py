"""PostgreSQL's meaning on DuckDB: the dialect of the parser, functions, casts and sums."""
