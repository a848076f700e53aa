"""What one attention row says: entropy, mass on a set of keys, kinds of heads."""
