"""What does a preset cost, and would it run? Operations counted and steps timed, without the whole run."""
