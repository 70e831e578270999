"""Rewriting over views, access paths, order of joins, implied filters, uncorrelated subqueries."""
