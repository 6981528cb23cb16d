"""A node in a program: publishing, subscribing, commands."""
