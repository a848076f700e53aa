"""Parity of secret bits, with and without CoT; asked by wen2024."""
