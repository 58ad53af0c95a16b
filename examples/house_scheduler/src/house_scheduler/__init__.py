"""The scheduler of a company: two rules of its own beside those of Kubernetes."""
