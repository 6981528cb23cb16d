"""From decisions to frames on connections."""
