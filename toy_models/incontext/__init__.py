"""Multi-step reasoning learned from the examples of a prompt; asked by li2024."""
