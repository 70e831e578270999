"""Spark data sources: relations and their changes, read and written."""
