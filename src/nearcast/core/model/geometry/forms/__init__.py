"""Areas as text, JSON and WKT: readers and writers."""
