"""What is measured of every head, how it is reduced, and where it is kept."""
