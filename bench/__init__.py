"""Demo and benchmarks: what somebody runs to see what Hornbeam does, and how fast."""
