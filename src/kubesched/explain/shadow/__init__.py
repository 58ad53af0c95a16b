"""Shadow mode: what this scheduler would have decided for the pods that another one places."""
