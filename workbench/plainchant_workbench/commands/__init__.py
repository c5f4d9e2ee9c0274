"""The commands ``plainchant bench``, ``chaos`` and ``demo``, one file each."""
