"""Builds profiles and runs the plugins of each extension point."""
