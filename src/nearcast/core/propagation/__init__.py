"""What waits for recipients: in which order it goes, and what is dropped instead."""
