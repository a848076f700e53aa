"""What each sentence of a reasoning trace does to what follows it."""
