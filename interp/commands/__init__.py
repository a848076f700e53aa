"""The commands of `cotlens`, one file each; `interp.cli` imports only the one that is asked for."""
