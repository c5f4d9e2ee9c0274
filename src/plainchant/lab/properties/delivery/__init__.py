"""What is delivered, and by which processes: integrity, self-delivery, validity, agreement, uniform, unanimity."""
