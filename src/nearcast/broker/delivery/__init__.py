"""From engine decisions to frames on connections."""
