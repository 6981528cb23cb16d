"""What must be on disk before anyone is told, and what is there after a restart."""
