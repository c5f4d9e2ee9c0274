"""The demo and the story that it tells of a trace."""
