"""Evaluation by DuckDB in worker processes: types, sessions, scalar expressions."""
