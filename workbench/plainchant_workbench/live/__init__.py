"""How fast live groups are, beside raw UDP and other systems, in the same run. May import everything but ``cli``.

Start with ``measure`` (what is run and what comes out of it) and ``plan`` (which cases). Every case is a set of member
processes (``processes``), pinned, started together and ended by their ids: ``member`` is ours, ``raw``, ``pysyncobj_member`` and
``corosync_member`` are the others'. ``sequences`` checks what is delivered, so that a fast and wrong run is an error. ``idle``
measures groups that are nearly idle, ``timed`` deadlines, ``local`` what processes of one machine can do, in common memory or
with the queues and socket pairs of ``handover``, ``nodes`` two nodes of four processes beside a flat group.
"""
