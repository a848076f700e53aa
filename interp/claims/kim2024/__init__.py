"""Can gradient descent learn parity step by step, and which supervision does it need?

Juno Kim and Taiji Suzuki, "Transformers Provably Solve Parity Efficiently with Chain of Thought", 2024,
arXiv:2410.08633. Task: `toy_models.tree_parity`.

lemmas: do the quantities that the proofs bound keep to their bounds? (Lemmas 4, 6, 8, 9, 10)
thm2: how much does a gradient without intermediate supervision say about the secret? (Theorem 2, Proposition 3)
thm5: does one gradient step with teacher forcing solve parity, and from how many samples on? (Theorem 5)
thm5-noise: how large an error of the gradient does that step tolerate? (Theorem 5)
thm7: without teacher forcing, does a filter solve one level of the tree at each update? (Theorem 7)
no-supervision: is parity out of reach without intermediate supervision? (Theorem 2, section 3)
"""
