"""The protocols: pure state machines, one folder each. Start with ``registry``, then a protocol's own ``__init__``.

A folder has everything that is particular to its protocol: engine, parameters, description, and its story (``story``: how its
runs are told). A new folder is a new protocol. ``exploration`` and ``variants`` are laboratory equipment that no engine
imports.

Modules here import ``core`` and their own package, and no sockets, clocks, threads, logs or chance: a protocol asks its host.
A test enforces it.
"""
