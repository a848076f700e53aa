"""What the model reads: problems, conditions, spans of a worked solution."""
