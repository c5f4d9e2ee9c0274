"""Times: deadline and bounded."""
