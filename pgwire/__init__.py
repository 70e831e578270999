"""PostgreSQL's wire protocol: `psql`, drivers and tools of PostgreSQL as clients of a node."""
