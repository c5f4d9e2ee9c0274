"""plainchant: reliable, ordered group communication in Python, and the laboratory that proves it.

Three floors: ``protocols`` (pure state machines), hosts that run them (``sim``, later ``live``), and what reads the
traces that hosts write (``trace``, later ``lab``). Start reading with ``model`` and ``engine``.
"""

__version__ = "0.1.0"
