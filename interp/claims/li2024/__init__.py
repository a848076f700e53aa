"""Li et al. 2024, "How Do Nonlinear Transformers Acquire Generalization-Guaranteed CoT Ability?": in-context CoT."""
