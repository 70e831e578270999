"""Adapters in memory under virtual time: whole clusters in one process, the same on every run."""
