"""Watch events: which kinds are watched, and how events change the cache and the queue."""
