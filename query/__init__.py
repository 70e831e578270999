"""SQL to bound queries, rewriting over views, access paths, execution, `explain`."""
