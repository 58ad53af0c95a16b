"""The functions that expressions may call, a module per library."""
