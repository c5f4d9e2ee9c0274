"""The live host: the same protocols between real processes, over real sockets.

``node`` has what programs use (:class:`~.node.Node`, :func:`~.node.join`); ``host`` performs the effects of the process core
on an event loop; ``gate``, ``routes`` and ``timers`` are its leaves; ``presence`` knows which processes there are and how a
group begins. ``transport`` says what a transport is: ``udp``, ``tcp`` and ``multicast`` are transports, ``lans`` is several at
once, ``sealed`` encrypts one. ``memory`` is shared memory, ``observe`` metrics and spans. (``lab.live`` runs scenario files
with real processes.)

Imports neither ``sim`` nor the laboratory. Start with ``node``, then ``host``.
"""
