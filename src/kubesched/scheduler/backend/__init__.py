"""Who is where and who waits: the cache, its snapshot, the scheduling queue."""
