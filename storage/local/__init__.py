"""Adapters for one process on one machine: files, the system's clock, locks on files."""
