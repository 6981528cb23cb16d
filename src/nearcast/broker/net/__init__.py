"""Sockets and the event loop: connections, links, listeners, and the tick scheduler."""
