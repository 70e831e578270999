"""Adapter for ZooKeeper."""
