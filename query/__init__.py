"""Queries: binding of SQL, rewriting over views, access paths, execution, `explain`."""
