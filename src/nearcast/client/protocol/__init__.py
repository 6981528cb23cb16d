"""An MQTT client as a state machine, free of I/O."""
