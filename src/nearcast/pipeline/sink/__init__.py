"""What is for brokers reaches them, exactly once."""
