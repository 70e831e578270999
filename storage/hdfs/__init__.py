"""Adapter for HDFS."""
