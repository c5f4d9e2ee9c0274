"""Tests of the properties: reference checks, and checks on a trace that grows."""
