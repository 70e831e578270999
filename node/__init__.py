"""One node: its adapters and settings, the `Database` that serves reads and writes, its start and
its end."""
