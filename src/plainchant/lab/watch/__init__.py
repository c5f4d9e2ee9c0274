"""The page of ``plainchant watch``: what a group does, while it does it.

Theory of operation
-------------------
A *source* hands out facts in rounds: the spools of a directory as they grow (``trace.following``), a finished trace that is
replayed or shown as it ended (``sources``), or what one node does (``tap``). A :class:`~.picture.Picture` makes of them what a
person wants to know first, in bounded memory. The ``server`` sends it to browsers, twice a second, as one JSON text for all who
look at the same run; a browser that reads slowly misses frames and slows nobody down. The ``page`` is one HTML text with its
style sheet and script in it; it loads nothing else. ``verdict`` runs Spark beside it (``stream``), or says why there is none.

May import everything but ``cli``; aiohttp (the extra ``observe``) and Spark (``lab``) only when they are used. Start reading with
``picture``.
"""
