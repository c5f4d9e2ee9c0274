"""The live host: the same protocols between real processes, over real sockets.

``node`` has what programs use (:class:`~.node.Node`, :func:`~.node.join`); ``host`` performs the effects of the process core on
an event loop, with the leaves ``gate``, ``routes`` and ``timers``; ``presence`` knows which processes there are and how a group
begins. ``transport`` says what a transport is: ``udp``, ``tcp``, ``multicast``; ``lans`` is several, ``sealed`` encrypts one.
``memory`` is shared memory, ``observe`` metrics and spans. (``lab.live`` runs scenario files with real processes.) Start with
``node``, then ``host``.
"""
