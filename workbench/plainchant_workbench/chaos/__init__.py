"""Chaos: real members of every live protocol under attack, round after round, and what must be true afterwards.

May import everything but ``lab`` and ``cli``. Start with ``plan`` (which trouble each protocol gets, and why), then ``rounds``
(one round from its start to its verdict), ``figures`` (what processes take of the system) and ``trend`` (whether it grows).
"""
