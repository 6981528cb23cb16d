"""How many people a smallest number of people may be (seed E, k-anonymity)."""

LEAST, MOST = 2, 10_000
