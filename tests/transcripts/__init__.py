"""Transcript tests: what a few members say to each other under scripted faults, written down and read by people."""
