"""Adapter for messages between members over TCP."""
