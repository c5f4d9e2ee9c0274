"""Common memory between the processes of one machine: memory modules are files that all of them have mapped.

``segments`` is one module of a mailbox, ``server`` the mailbox server (who is connected, who has died), ``stepper`` runs the
procedures of a process, ``timers`` wakes it with the precision that bounds of microseconds need. May import what ``live`` may;
start with ``segments``.
"""
