"""What a host asks the engine: nodes, explanations, and what subscriptions lack."""
