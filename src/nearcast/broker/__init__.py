"""The MQTT server around the engine."""
