"""Catalogue queries of PostgreSQL's clients, with the answers of PostgreSQL and of Hornbeam."""
