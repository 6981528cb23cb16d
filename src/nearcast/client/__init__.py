"""The client: an MQTT client as a state machine, and asyncio round it."""
