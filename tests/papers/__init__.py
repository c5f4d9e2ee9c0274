"""Paper tests: one file a seed, a test for each stated property, figure or numbered claim.

Reading them is reading the paper. Start with a ``test_*`` file; ``by_hand`` and ``runs`` are its tools.
"""
