"""What everything else stands on: files that appear whole or not at all, checkpoints, plug-ins."""
