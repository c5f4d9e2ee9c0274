"""Tests of this paper: one for each stated property, figure and numbered claim, and of what `plainchant reproduce` measures.

Reading them is reading the paper. ``test_claims*`` check the measurements; the other files are named after sections.
"""
