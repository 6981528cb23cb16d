"""What a client receives: events on their way to who reads them."""
