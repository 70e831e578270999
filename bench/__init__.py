"""Demos and benchmarks: they show the features of Hornbeam, and measure its performance."""
