"""Is the claim true? Claims, statistics, figures, run store and command line."""
