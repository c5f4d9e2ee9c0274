"""Chaos: its checks, each against a planted failure, and short rounds."""
