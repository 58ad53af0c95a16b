"""The reference's own benchmark workloads, run unmodified on the embedded cluster."""
