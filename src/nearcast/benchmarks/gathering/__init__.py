"""What events cost that wait for many subscribers."""
