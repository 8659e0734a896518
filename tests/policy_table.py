"""The policies of the tests of properties that hold for every policy, and of costs."""

from dualmctx import MPV, AlphaGo, AlphaZero, Backup, Chain, Contempt, Dual, Gumbel, MuZero, Root
from oracle.cases import grouped

CALM = grouped(dirichlet_fraction=0.0, explore_fraction=0.0, temperature=0.0)
CALM_WINDOW = grouped(window=2, dirichlet_fraction=0.0, explore_fraction=0.0, temperature=0.0)
NOISY_WINDOW = grouped(window=1, explore_fraction=0.5, explore_decay=1.0)
POLICIES = {
    "alphazero": AlphaZero(64, **CALM),
    "dual": Dual((40, 30), 5, **CALM),
    # A small tree so small that the large one has to grow by itself.
    "dual window": Dual((60, 160), 7, action_weights="all_visits", **CALM_WINDOW),
    "dual few children": Dual(
        (40, 30), 1, action_weights="large_visits", **grouped(NOISY_WINDOW, max_children=6)
    ),
    "chain": Chain((50, 40, 30), 5, **CALM),
    "mpv": MPV((40, 30), **CALM),
    # Positions of tic-tac-toe with one good move have at most six legal ones.
    "contempt": Contempt(64, -3, **grouped(CALM, max_children=6)),
    "alphago": AlphaGo(100, **CALM),
    "options": AlphaZero(
        64,
        **grouped(CALM, regularized=("act", "learn"), minimax_mix=0.4, rave_visits=9.0),
    ),
    "gumbel": Gumbel(200, gumbel_scale=0.0),
    "gumbel noisy": Gumbel(60, backup=Backup(window=2, explore_fraction=0.5)),
    "muzero": MuZero(64, root=Root(dirichlet_fraction=0.0, temperature=0.0)),
}
# The table of costs in docs/variants.md: name, policy, depths of the heads, options of the model.
COUNTS = [
    ("`alphazero`", AlphaZero(), (2, 4), {}),
    ("`gumbel`", Gumbel(), (2, 4), {}),
    ("`dual`", Dual(), (2, 4), {}),
    ("without kept activations", Dual(), (2, 4), {"keep_activations": False}),
    ("`chain`", Chain(), (1, 2, 4), {}),
    ("`mpv`", MPV(), (4, 6), {}),
    ("uniform rollouts", AlphaGo(rollout_policy="uniform", rollout_length=10), (2, 4), {}),
    ("rollouts of 10 moves", AlphaGo(rollout_length=10), (2, 4), {}),
    ("separate networks: 0 blocks", AlphaGo(rollout_length=10), (0, 4), {}),
]
# The depths of value networks of their own, by the name of the row.
VALUE_DEPTHS = {"separate networks: 0 blocks": 4}
