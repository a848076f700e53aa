"""How fast is it? Side by side with the peers, in one process, as ratios."""
