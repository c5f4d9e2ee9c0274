"""Benchmarks: that they measure what they say. Speed itself depends on the machine and is not tested."""
