"""What the products share: clients, expressions, metrics and utilities. No scheduling rules."""
