"""Transactions on one node: statements, locks, constraints, attempts, outcomes."""
