"""Publish/subscribe that knows the situation."""
