"""The state of the scheduler: the cache, its snapshot, the scheduling queue."""
