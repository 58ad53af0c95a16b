"""What other objects have to say about a new one: runtime classes, limit ranges, quotas."""
