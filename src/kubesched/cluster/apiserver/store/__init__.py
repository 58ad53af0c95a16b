"""Stored objects: their revisions, the log of changes, who follows it, and the file behind it."""
