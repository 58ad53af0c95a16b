"""Helpers that several plugins share, such as node matching and score arithmetic."""
