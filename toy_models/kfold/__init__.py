"""k-fold composition of permutations, from easy to hard; asked by wang2025."""
