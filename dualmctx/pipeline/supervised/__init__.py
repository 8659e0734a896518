"""The supervised stage: the policy network and the rollout policy, from games of others."""
