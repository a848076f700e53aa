"""What every toy task shares: the decoder, its exact fast step, training, evaluation, probing."""
