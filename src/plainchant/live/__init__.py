"""Hosts for real: the same protocols between processes, over real sockets.

``node`` has what programs use (:class:`~.node.Node`, :func:`~.node.join`); ``host`` runs an engine on an event loop;
``presence`` knows who is there and how a group begins; ``transport`` says what a transport is, ``udp``, ``tcp`` and ``multicast``
are transports, ``lans`` is several at once, ``faulty`` spoils one on purpose. ``supervisor`` and ``worker`` run scenario files
with real processes.

May import everything but ``lab`` and ``cli``. Start reading with ``node``, then ``host``.
"""
