"""Hostile packets: what a stranger, an old incarnation or a lying member can make of us.

Theory of operation
-------------------
``packets`` makes packets of the declarations of their types, and bends real ones; a new packet type is fuzzed because it is
declared. ``courses`` are short runs of every protocol, with crashes, joins and losses, in which nobody halts by itself.
``attack`` runs one of them and hands extra packets to its processes; what it decides comes from bytes (``dice``), so that
hypothesis, a seed and atheris drive the same code. ``sizes`` counts all that an engine holds. ``targets`` are the functions that
take bytes, and ``__main__`` runs them: under atheris (``make fuzz``), or for files with findings.

Start with ``attack``; docs/bounds.md says what must hold.
"""
