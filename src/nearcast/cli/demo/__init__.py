"""A small living city, in virtual time or on a broker, to look at."""
