"""The stage reinforce: the policy network, from games against its earlier versions."""
