"""Tests of what a node tells those who look after it."""
