"""Certificates: small, exact summaries of rows, from which the properties of large runs are proved.

Bottom up: ``columns`` (a table as NumPy arrays), ``agreed`` (what rows about a message agree on), ``unit`` (one pass over some
rows), ``evidence`` (the certificates of one run together), ``woven`` (histories read back from certificates).
"""
