"""The MQTT load generator of the broker benchmark, and the costs of processes."""
