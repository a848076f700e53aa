"""Wen et al. 2024, "From Sparse Dependence to Sparse Attention": parity, and pretrained models on GSM8K."""
