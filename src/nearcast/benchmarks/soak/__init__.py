"""The soak: an hour of churn, faults and attackers round one broker, and whether it stays flat."""
