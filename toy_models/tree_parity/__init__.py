"""Parity as a binary tree of two-bit parities, solved by position attention; asked by kim2024."""
