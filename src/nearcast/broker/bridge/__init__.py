"""The bridge: exchanges messages with another MQTT broker."""
