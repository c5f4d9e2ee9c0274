"""The tests. Folders mirror ``src/plainchant``; what several of them share is imported as ``tests.<module>``."""
