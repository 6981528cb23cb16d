"""Which proximities there are: event types, areas, beacons, groups."""
