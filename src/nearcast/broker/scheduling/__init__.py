"""Fair scheduling: what the work of each session costs, and whose input is processed next."""
