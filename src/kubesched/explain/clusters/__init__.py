"""The cluster that is explained: sources of its objects, and their model in memory."""
