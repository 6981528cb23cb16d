"""What a fix costs when nodes are in relationships."""
