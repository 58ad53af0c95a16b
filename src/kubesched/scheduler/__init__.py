"""The loop: from a watch event to a bound pod."""
