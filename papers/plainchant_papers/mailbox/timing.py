"""The bounds of all these runs, µs: ds, df, dd, dr, dfd, e and p. The clocks' difference is small against an operation."""

WRITE, FLAG, DECIDE, READ, FINISH, SKEW, POLL = 20, 20, 10, 20, 10, 4, 100
