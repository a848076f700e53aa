"""Toy transformers as hooked models: the papers' synthetic tasks, models and training."""
