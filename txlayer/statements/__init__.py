"""Statements that write: requests, and their plans, compiled for one version of the catalog."""
