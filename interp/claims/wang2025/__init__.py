"""Wang et al. 2025, "Learning Compositional Functions with Transformers from Easy-to-Hard Data": k-fold tasks."""
