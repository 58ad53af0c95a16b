"""Command-line options, and the configuration of a process that follows from them."""
