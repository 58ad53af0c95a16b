"""Who asks, and whether they may: delegated to the cluster's API server (spec 02 §3, §4)."""
