"""From self-play to parameters: configuration, self-play, targets, replay and learning."""
