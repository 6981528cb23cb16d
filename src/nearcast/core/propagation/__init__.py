"""Queues of recipients: the order of messages, and which are dropped."""
