"""Which pretrained model is measured, and how it is loaded."""
