"""The papers' synthetic tasks, one file each."""
