"""The nodes' own batches of live and deferred views."""
