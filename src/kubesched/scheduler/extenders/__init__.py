"""HTTP extenders: services outside this process that take part in decisions (spec 04 §18)."""
