"""The endpoints on a socket: TLS, sign-in, and the filters in front of the handlers."""
