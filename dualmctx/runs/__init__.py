"""Files and displays of a training run: folders, checkpoints, saved networks, logs."""
