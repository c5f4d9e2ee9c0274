"""Chaos: its checks, with what they are to find planted, and short rounds of it."""
