"""The situation over MQTT: what clients say of themselves, of events and of what they want."""
