"""How attention is seen from inside an ordinary forward pass."""
