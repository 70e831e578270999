"""Measures the same data and statements on several systems: Hornbeam, Phoenix with and without
transactions, the paper's own protocol, and PostgreSQL."""
