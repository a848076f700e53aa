"""Hooked toy models."""
