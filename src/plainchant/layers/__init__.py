"""Layers that hosts put around every protocol: messages larger than a packet, and the application's state for joiners.

May import ``core``. Start with ``fragmentation``.
"""
