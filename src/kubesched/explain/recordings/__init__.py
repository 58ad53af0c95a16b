"""Flight recordings: the input and the decisions of a scheduler, in files that can be replayed."""
