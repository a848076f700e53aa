"""Kim and Suzuki 2024, "Transformers Provably Solve Parity Efficiently with Chain of Thought": tree parity."""
