"""The value stage: the value network, from games of the policies."""
