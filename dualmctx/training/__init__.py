"""Training: configuration, self-play, targets, replay buffer and learner."""

__all__ = ("config", "presets", "trainer")
