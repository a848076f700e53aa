"""Does the model use what it attends to? Knockouts and ablations inside pretrained models."""
