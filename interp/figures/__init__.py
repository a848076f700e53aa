"""Figures that more than one paper or command draws: rows in, matplotlib figures out."""
