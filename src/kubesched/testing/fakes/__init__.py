"""Fakes of the parts of a cluster that a plugin or a test calls."""
