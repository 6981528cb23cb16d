"""Sockets and the loop: connections, links, listeners, and when a tick is due."""
