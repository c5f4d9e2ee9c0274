"""Pictures of the documentation that a program draws, and that tests hold true."""
