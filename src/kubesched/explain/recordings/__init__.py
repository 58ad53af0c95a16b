"""Flight recordings: what a scheduler saw and decided, in files that can be played again."""
