"""Published schema files with their rows, as a new user would import them: `make published`.

Each file is imported by one command, and loaded into a real PostgreSQL. Both answer the same
queries, without views and with views; both execute the same random writes to every relation. All
rows are compared afterwards, and the views are verified.
"""
