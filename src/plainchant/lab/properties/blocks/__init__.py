"""Properties of building blocks, read off their ``note`` rows: ``replicas`` has what all share, and replica-agreement; ``merged``
dictionary-merge and counter-sum, ``offices`` lock-exclusion and one-leader, ``queue`` jobs-once, ``requests`` answers. They have
a reference check only: a growing trace leaves them open until its end, and certificates leave them to it.
"""
