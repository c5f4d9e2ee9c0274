"""Violations found in a small part of a large run: its doubtful messages are searched, the rest is proved.

Bottom up. Runs of one group and one sequence but for a few messages: ``walks`` (which messages are doubtful, and why the
others are not), ``rest`` (the certificates of the run without them). Runs of any kind: ``strands`` (which message each row
is about), ``remainder`` (the certificates without some), ``doubts``, ``orders``, ``causes`` (which messages are doubtful),
``split`` (how both parts add up). ``narrow``: what all that says. May import: ``certificates``, ``delivery``, ``order``,
the catalogue.
"""
