"""What nodes without a broker pass on: order, shares of the channel, recovery."""
