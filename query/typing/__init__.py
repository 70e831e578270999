"""The types of literals, operands and conditions, by PostgreSQL's rules."""
