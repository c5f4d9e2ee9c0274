"""In which order messages are delivered: fifo, causal, identical, total, acyclic, prompt."""
