"""From packets to inputs of the engine: checked, refused or taken, and acknowledged."""
