"""Tests of verification on Spark and in one task, compared with the reference."""
