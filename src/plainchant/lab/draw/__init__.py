"""Drawings of runs as SVG: space-time diagrams of groups, and timing diagrams of procedures on shared memory.

May import ``core``, ``trace`` and ``lab.explain``. Start with ``diagram``.
"""
