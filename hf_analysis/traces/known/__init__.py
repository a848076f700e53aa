"""The measures of `cotlens trace`: one file and one registration each."""
