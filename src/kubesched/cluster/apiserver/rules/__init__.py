"""What may be stored, and what becomes of it on the way: rules that know no store and no socket."""
