"""What everything else stands on: whole files, checkpoints, locks, resuming, random streams, plug-ins."""
