"""Rules: topic permissions, and who may see what of other nodes."""
