"""The Python SDK: nodes in programs, over an MQTT client that is a state machine in asyncio."""
