"""Tests of Spark sessions."""
