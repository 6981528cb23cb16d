"""What a client proves who it is with: passwords, tokens, and the files that hold them."""
