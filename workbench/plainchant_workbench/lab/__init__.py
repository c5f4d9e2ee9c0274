"""Benchmarks of the laboratory: verification beside DuckDB, sweeps beside a pool of processes."""
