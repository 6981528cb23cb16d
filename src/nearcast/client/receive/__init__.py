"""Received messages: from the protocol to the reader."""
