"""The scheduling cycle and the binding cycle of one pod, and the handling of failures."""
