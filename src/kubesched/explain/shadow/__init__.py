"""Shadow mode: what this scheduler would have decided for pods that another scheduler places."""
