"""The core: what a protocol is, the process that runs it, and how its packets become bytes.

``model`` is the vocabulary, ``names`` makes and parses the names of processes, ``engine`` is the contract between a protocol
and its host, ``process`` the one implementation of that host (with ``queues``), which drivers extend; ``memory`` is what
procedures on shared memory may ask for, ``wire`` packets as bytes, ``plugins`` finds what is installed beside the library.
Imports nothing else of ours. Start with ``model``, then ``engine``, then ``process``.
"""
