"""A correct game outside the package, and games that each break one rule of the contract.

Seven stones; a move takes one or two; who takes the last one wins.
"""

import flax.struct
import jax
import jax.numpy as jnp


@flax.struct.dataclass
class State:
    stones: jax.Array
    secret: jax.Array
    current_player: jax.Array
    observation: jax.Array
    rewards: jax.Array
    terminated: jax.Array
    truncated: jax.Array
    legal_action_mask: jax.Array


class Good:
    id, num_actions, observation_shape, num_players = "stones", 3, (9,), 2

    def init(self, key):
        return self.make(jnp.int32(7), jax.random.bernoulli(key).astype(jnp.int32))

    def make(self, stones, player, rewards=(0.0, 0.0), **changes):
        state = State(
            stones=stones,
            secret=jnp.int32(0),
            current_player=player,
            observation=jnp.arange(9) == stones,
            rewards=jnp.asarray(rewards, jnp.float32),
            terminated=stones <= 0,
            truncated=jnp.bool_(False),
            # The third action is never legal.
            legal_action_mask=(jnp.arange(3) < jnp.minimum(stones, 2)) | (stones <= 0),
        )
        return state.replace(**changes)

    def step(self, state, action):
        taken = jnp.where(state.terminated, 0, action + 1)
        illegal = ~state.legal_action_mask[action]
        stones = jnp.where(illegal, 0, state.stones - taken)
        mover = state.current_player
        ends = (stones <= 0) & ~state.terminated
        sign = jnp.where(illegal, -1.0, 1.0)
        wins = jnp.where(jnp.arange(2) == mover, sign, -sign)
        return self.make(stones, 1 - mover, jnp.where(ends, wins, 0.0), secret=state.secret)


def static(name, base=Good, **methods):
    return type(name, (base,), methods)()


def change_init(**changes):
    """Returns a game whose initial state has other fields."""
    init = lambda self, key: Good.init(self, key).replace(**changes)  # noqa: E731
    return static("Changed", init=init)


def change_step(change):
    """Returns a game whose `step` is followed by `change(before, action, after)`."""
    step = lambda self, state, action: change(state, action, Good.step(self, state, action))  # noqa: E731
    return static("Changed", step=step)


def _reads_observation(before, action, after):
    return after.replace(secret=after.secret + before.observation.sum() * 0)


class Hidden(Good):
    """The key decides the number of stones, which the observation does not show."""

    def init(self, key):
        secret = jax.random.bernoulli(key).astype(jnp.int32)
        return super().init(key).replace(stones=7 + secret, secret=secret)

    def make(self, stones, player, rewards=(0.0, 0.0), **changes):
        state = super().make(stones, player, rewards, **changes)
        return state.replace(observation=jnp.zeros(9, bool))


class Faulty(Good):
    """Breaks many rules of play at once.

    The number of stones at the start depends on the key; a secret decides whether a game ends; a
    key of a step takes more stones; the loser's reward is zero; a game that ends is truncated.
    """

    def init(self, key):
        secret = jax.random.randint(key, (), 0, 4)
        return self.make(jax.random.randint(key, (), 6, 8), jnp.int32(0), secret=secret)

    def step(self, state, action, key=None):
        after = super().step(state, action)
        after = after.replace(rewards=jnp.maximum(after.rewards, 0), truncated=after.terminated)
        more = 0 if key is None else jax.random.bernoulli(key).astype(jnp.int32)
        begun = self.make(7 + more, after.current_player, secret=state.secret)
        again = (state.secret > 0) & (after.stones <= 1) & state.legal_action_mask[action]
        again = (again & ~state.terminated) | (more > 0)
        return jax.tree.map(lambda x, y: jnp.where(again, x, y), begun, after)

    def observe(self, state):
        return jnp.arange(9) == state.stones - 1


class Counting(Good):
    calls = 0

    def init(self, key):
        self.calls += 1
        return super().init(key).replace(secret=jnp.int32(self.calls))


class OverAtStart(Good):
    def init(self, key):
        return super().init(key).replace(terminated=jnp.bool_(True))

    def step(self, state, action):
        return state


class Kuhn(Good):
    num_players = 3


STATIC = {
    "has no method step": type("NoStep", (), {"init": Good.init})(),
    "JAX cannot trace init: TracerBoolConversionError": static(
        "If", init=lambda self, key: Good.init(self, key if key[0] > 0 else key + 1)
    ),
    "JAX cannot trace step: TracerBoolConversionError": change_step(
        lambda before, action, after: after if after.stones > 0 else before
    ),
    "states lack current_player": static("Bare", init=lambda self, key: {"stones": key}),
    "state.current_player is float32": change_init(current_player=jnp.float32(0)),
    "the game has 3 players: rewards is float32": change_init(rewards=jnp.zeros(3)),
    r"state.rewards is float32 \[\]": change_init(rewards=jnp.float32(0)),
    "state.rewards is no array": change_init(rewards=(0.0, 0.0)),
    "state.legal_action_mask is no array": change_init(legal_action_mask=[jnp.bool_(True)] * 3),
    "num_players is 3": Kuhn(),
    "state.legal_action_mask is int32": change_init(legal_action_mask=jnp.ones(3, jnp.int32)),
    r"observation_shape is \(3, 3\)": static("Square", observation_shape=(3, 3)),
    "num_actions raised ValueError": static("Several", num_actions=jnp.arange(2)),
    "observation_shape raised TypeError": static("Flat", observation_shape=9),
    "state.observation is not one array": change_init(observation=(jnp.zeros(3),)),
    "state.stones is int32 .* float32 .* after step": change_step(
        lambda before, action, after: after.replace(stones=after.stones.astype(jnp.float32))
    ),
    "step reads state.observation": change_step(_reads_observation),
    r"observe\(state\) raised AttributeError": static(
        "Stored", observe=lambda self, state: state.observation.astype(bool)
    ),
    r"observe\(state\) returns int32 \[\]": static(
        "Count", observe=lambda self, state: state.stones
    ),
}


def keep(before, action, after):
    return after


# One way to break each rule of play, as a function of a state, an action and the state after it.
RULES = {
    "none": keep,
    "over_at_start": keep,
    "player": lambda before, action, after: after.replace(current_player=jnp.int32(2)),
    "no_move": lambda before, action, after: after.replace(
        legal_action_mask=after.legal_action_mask & (after.stones != 3)
    ),
    "observation": lambda before, action, after: after.replace(
        observation=jnp.where(after.stones == 3, jnp.nan, after.observation)
    ),
    "range": lambda before, action, after: after.replace(rewards=3 * after.rewards),
    "early_reward": lambda before, action, after: after.replace(
        rewards=jnp.where(after.stones == 3, jnp.array([0.5, -0.5]), after.rewards / 2)
    ),
    "zero_sum": lambda before, action, after: after.replace(rewards=jnp.maximum(after.rewards, 0)),
    "goes_on": lambda before, action, after: after.replace(
        terminated=(after.stones <= 0) & ~before.terminated
    ),
    "late_reward": lambda before, action, after: after.replace(
        rewards=jnp.where(before.terminated, jnp.array([1.0, -1.0]), after.rewards)
    ),
    "nothing_changes": lambda before, action, after: jax.tree.map(
        lambda x, y: jnp.where((before.stones == 5) & (action == 1), x, y),
        before,
        after,
    ),
    "illegal": lambda before, action, after: Good().step(
        before.replace(legal_action_mask=jnp.ones(3, bool)), action
    ),
}


class Mixed(Good):
    """The key of a game decides which rule the game breaks; `secret` has its number."""

    def init(self, key):
        secret = jax.random.randint(key, (), 0, len(RULES))
        state = super().init(key).replace(secret=secret)
        over = secret == list(RULES).index("over_at_start")
        return state.replace(observation=state.observation.astype(float), terminated=over)

    def step(self, state, action):
        after = super().step(state, action)
        broken = [change(state, action, after) for change in RULES.values()]
        after = jax.tree.map(lambda *x: jnp.stack(x)[state.secret], *broken)
        return after.replace(secret=state.secret)


PLAYED = [
    (
        Faulty(),
        (
            "do not add up to zero",
            "start in different positions",
            "the observation does not determine the position",
            "did not end within",
            "ended with truncated",
            "the key of a step changes its result",
            r"observe\(state\) differs from state.observation after 0 moves",
        ),
    ),
    (Counting(), ("in a batch differ|the same moves give different",)),
    (OverAtStart(), ("over at its start",)),
]


class WrongAbilities(Good):
    num_codes = 9

    def move_names(self):
        return ["a"]

    def symmetries(self):
        return [list(range(9)), [7, *range(7), 8]], [[0, 1, 2], [0, 1, 2]]

    def position_code(self, state):
        return jnp.maximum(state.stones, 0) // 2

    def to_fen(self, state):
        return "7"

    def from_fen(self, text):
        return self.make(jnp.int32(6), jnp.int32(0))
