"""Deferred views kept up to date by Spark, batch by batch."""
