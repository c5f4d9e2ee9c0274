"""Tests of hosts on real sockets."""
