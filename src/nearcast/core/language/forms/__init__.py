"""The forms of a filter: CQL2 text, CQL2 JSON, and the XML of seed C."""
