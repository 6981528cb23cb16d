"""Rules: who may do what with which topics, and who may see what of whom."""
