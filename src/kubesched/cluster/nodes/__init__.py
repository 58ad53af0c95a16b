"""Stand-ins for the kubelets of all nodes."""
