"""State tracking along a chain of variables under a group action; asked by huang2025."""
