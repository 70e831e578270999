"""Builds of views and indexes by Spark."""
