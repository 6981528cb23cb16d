"""Networks with seeded faults in virtual time: streams, datagrams, radio."""
