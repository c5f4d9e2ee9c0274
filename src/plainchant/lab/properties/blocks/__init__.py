"""Properties of building blocks, read off their ``note`` rows. They have a reference check only.

A trace that grows leaves them open until its end, and the certificates leave them to the reference check. ``replicas`` has
what the others share, and replica-agreement; ``merged`` has dictionary-merge and counter-sum, ``offices`` lock-exclusion and
one-leader, ``queue`` jobs-once, ``requests`` answers.
"""
