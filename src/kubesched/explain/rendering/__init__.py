"""Results as plain data, pandas frames and HTML."""
