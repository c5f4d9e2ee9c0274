"""Shared memory between the processes of one machine: memory modules are files that all of them have mapped.

``segments`` is one module of a mailbox, ``server`` the mailbox server (who is connected, who has died), ``stepper`` runs the
procedures of a process, ``timers`` wakes it to the microsecond. Start with ``segments``.
"""
