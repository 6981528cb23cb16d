"""Awareness of links: what sockets tell, figures and measures of them, and classes on change."""
