"""Huang et al. 2025, length generalisation on LEGO state tracking."""
