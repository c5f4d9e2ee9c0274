"""Tests of the machinery that all papers share: claims, pages, the command."""
