"""Hornbeam's own loops over rows: look-ups, joins, filters, order, groups."""
