"""Adapter for HBase."""
