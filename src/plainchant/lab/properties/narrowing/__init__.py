"""Violations found in a small part of a large run: its doubtful messages are searched, the rest is proved.

Bottom up: ``walks`` (which messages are doubtful, and why the others are not), ``rest`` (the certificates of the run without
them), ``narrow`` (what both parts say together). May import: ``certificates``, ``order``, the catalogue.
"""
