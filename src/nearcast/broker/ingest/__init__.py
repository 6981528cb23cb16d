"""From packets to engine inputs: checks, refusals and acknowledgements."""
