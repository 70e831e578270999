"""Spark jobs on whole relations: data sources, loads, builds, refreshes and reconciliation."""
