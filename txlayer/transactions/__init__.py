"""Transactions on one node: attempts, rows, constraints, outcomes."""
