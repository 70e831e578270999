"""PostgreSQL's functions over Python's values. Our own loops and DuckDB call the same ones.

They are pure, are never called with NULL unless they say so, and raise TypeMismatch.
"""
