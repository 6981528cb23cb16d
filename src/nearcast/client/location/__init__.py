"""Location sources: where fixes come from, for `follow` of nodes with a broker and without."""
