"""From a command line to what a scheduler process is built from."""
