"""Who moves how: walkers, vehicles, buses, recorded tracks; a city of them."""
