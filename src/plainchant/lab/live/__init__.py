"""Scenarios for real: a supervisor that starts a process for each member, makes the scenario's faults happen, and ends them all.

``supervisor`` runs a scenario, ``crew`` starts processes and knows which run, ``process`` is a worker as its supervisor sees it,
``worker`` is the process itself, ``control`` what the two say to each other, ``faults`` the live backend of the injector,
``faulty`` a transport that loses, delays and damages packets, ``workload`` the senders, ``namespaces`` partitions by the kernel.
A program that only takes part in a group needs nothing of this. Imports ``live``, ``scenario`` and what these import. Start with
``supervisor``.
"""
