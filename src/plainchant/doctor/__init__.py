"""What ``plainchant doctor`` looks at: whether this machine has what groups and the laboratory need, and what to change.

``finding`` is the vocabulary, ``machine`` all that a check may ask of the world, so that a test can answer otherwise; the
checks are functions in ``software``, ``network``, ``keys``, ``clocks`` and ``resources``; ``examination`` has the list of them
and runs it. May import everything but ``cli``; what is heavy (the laboratory) late. Start with ``examination``.

**To add a check**: write a function from a :class:`~.machine.Machine` and a :class:`~.finding.Subject` to findings, give it its
place in ``examination.CHECKS``, and test that it finds what it looks for and nothing where there is nothing. A file that only
its owner may read (a key) is one line: ``yield from private_file(machine, "keys", path, "the group's key")`` (``resources``).
"""
