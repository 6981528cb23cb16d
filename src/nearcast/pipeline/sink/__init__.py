"""Publishing rows to brokers, exactly once."""
