"""Group commit: timestamps, the append to the log, recovery."""
