"""Urgent events on a link that is too thin, with priorities and without."""
