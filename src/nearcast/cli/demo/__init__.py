"""A small simulated city, in virtual time or on a broker, as a demonstration."""
