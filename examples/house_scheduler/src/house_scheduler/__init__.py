"""The scheduler of a company: two additional rules besides those of Kubernetes."""
