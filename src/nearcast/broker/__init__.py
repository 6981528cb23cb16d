"""The MQTT server round the engine."""
