"""What the checks on a growing trace share: ``book`` keeps what they find, ``state`` what is remembered of the run."""
