"""The situation over MQTT: contexts, options of events and subscriptions, topics of the broker."""
