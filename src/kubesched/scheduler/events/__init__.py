"""What the scheduler watches, and what each watch event changes in the cache and the queue."""
