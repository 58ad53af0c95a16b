"""Rules per kind: what the server fills in, refuses, and protects from change."""
