"""Sessions: subscriptions and queued messages of each client, and how sessions begin and end."""
