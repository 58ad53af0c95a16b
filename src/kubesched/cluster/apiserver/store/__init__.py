"""The store: objects with revisions, the log of changes, watches, and the data file."""
