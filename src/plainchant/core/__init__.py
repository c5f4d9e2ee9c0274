"""The core: what a protocol is, what it may ask for, and how its packets become bytes.

``model`` is the vocabulary, ``names`` makes and parses the names of processes, ``engine`` is the contract between a protocol and
its host, ``memory`` what procedures on shared memory may ask for, ``wire`` packets as bytes. Imports nothing else of ours. Start
with ``model``, then ``engine``.
"""
