"""API errors, field problems and the size limit: how the server refuses a request."""
