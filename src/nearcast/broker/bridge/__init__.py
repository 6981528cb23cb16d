"""Another MQTT broker's messages come here, and those of here go there."""
