"""Ports to the table store, the log, coordination and the clock; their adapters; all formats."""
