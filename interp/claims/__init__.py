"""The papers' claims: one package per paper, one file per figure or theorem."""
