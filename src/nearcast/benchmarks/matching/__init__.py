"""The matching benchmark: Nearcast's matcher and its alternatives."""
