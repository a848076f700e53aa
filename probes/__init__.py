"""What is measured: tensors in, numbers out. Imports nothing of ours."""
