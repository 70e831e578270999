"""Initial loads and appends of files by Spark."""
