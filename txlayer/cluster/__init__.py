"""Several nodes: members, the master and its assignment, remote locks, snapshots over all nodes."""
