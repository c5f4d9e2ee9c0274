"""Scenarios for real: a supervisor that starts a process for each member, makes the scenario's faults happen, and ends them all.

``supervisor`` runs a scenario, ``crew`` starts processes and knows which run, ``process`` is a worker as its supervisor sees it,
``worker`` the process itself, ``control`` what they say to each other, ``faults`` the live backend of the injector, ``faulty`` a
transport with faults, ``workload`` the senders, ``namespaces`` partitions by the kernel. Start with ``supervisor``.
"""
