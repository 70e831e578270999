"""Roles and grants, API keys, TLS."""
