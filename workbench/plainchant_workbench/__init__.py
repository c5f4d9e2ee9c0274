"""Benchmarks, chaos and the demo: programs that use the library and the laboratory, beside them.

``commands`` has what the command line calls, ``live`` and ``lab`` the benchmarks, ``chaos`` real members in trouble. May import
all of ``plainchant``; nothing there imports this.
"""
