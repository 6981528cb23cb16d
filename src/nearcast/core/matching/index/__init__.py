"""Where subscriptions, nodes and live events lie, so that few are looked at."""
