"""Pretrained models: problems, conditions, and the exact entropy of every head."""
