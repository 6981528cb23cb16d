"""Nodes that keep silent inside regions: who watches which pairs, and what is settled."""
