"""Types and values in PostgreSQL's formats."""
