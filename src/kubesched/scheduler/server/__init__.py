"""The process around the scheduler: its command line, options and configuration."""
