"""The broker beside mosquitto."""
