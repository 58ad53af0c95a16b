"""Stand-ins for the parts of a cluster that a plugin or a test talks to."""
