"""The workbench's tests: benchmarks, chaos and the demo."""
