"""The write path: statements to changes, locks, constraints, commit, recovery, watermark."""
