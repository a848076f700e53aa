"""Attention's output and its row statistics from one pass of a Triton kernel, for half precision on a GPU."""
