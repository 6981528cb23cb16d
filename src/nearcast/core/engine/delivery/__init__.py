"""Deliveries: their columns, routes of subjects, and delivery of live events."""
