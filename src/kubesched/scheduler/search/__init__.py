"""The search for a node: PreFilter, Filter, PreScore and Score over all nodes."""
