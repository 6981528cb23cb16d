"""What must wait together before it leaves: rules as text, thresholds, cases over contexts."""
