"""Connections to a server: transports, and links that reconnect."""
