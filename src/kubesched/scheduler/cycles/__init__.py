"""The scheduling cycle and the binding cycle of one pod, and what happens when one fails."""
