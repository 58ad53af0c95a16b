"""The rules for objects: defaulting, validation, patching, admission. No store and no sockets."""
