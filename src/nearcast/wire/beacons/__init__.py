"""Codecs of nodes without a broker: messages, datagrams, sealing with a group key; free of I/O."""
