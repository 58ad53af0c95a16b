"""The endpoints on a socket: certificates, TLS, connections and the filters around a handler."""
