"""The protocols: pure state machines, one folder each. Start with ``registry``, then a protocol's own ``__init__``.

Modules here import ``model`` and ``engine`` and nothing else of ours, and neither sockets nor clocks, threads, logs or
chance: whatever a protocol wants from the world it asks of its host. A test enforces it.
"""
