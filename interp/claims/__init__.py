"""The papers' claims, one file per paper or figure."""
