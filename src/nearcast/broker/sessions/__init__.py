"""Sessions: what the broker owes each client, and how clients come and go."""
