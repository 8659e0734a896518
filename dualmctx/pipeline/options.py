"""The options of the stages: each group is a field of the configurations in `config`."""

import dataclasses
from typing import Literal

from dualmctx.checks import (
    check,
    check_count,
    check_even,
    check_norm,
    check_not_negative,
    check_number,
    check_positive,
    normalize_options,
)
from dualmctx.matches.arena import MAX_PLIES


@dataclasses.dataclass(frozen=True)
class GamesOptions:
    """Options of the games of the data set that the whole pipeline makes."""

    engine: Literal["openspiel", "perfect"] = "openspiel"
    """The player of both sides: OpenSpiel's MCTS; or the exact player of a small game, in Connect
    Four bitbully's."""
    number: int = 2000
    """Number of games."""
    simulations: int = 1000
    """Simulations per move of openspiel."""
    opening_plies: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Each game begins with random moves, as many as one of these numbers, which is sampled."""
    random_share: float | None = None
    """Share of random moves after the opening, in [0, 1); by default 0.1 for perfect, otherwise
    0."""
    validation: float = 0.05
    """Share of the games for validation."""
    test: float = 0.05
    """Share of the games for the test."""

    def __post_init__(self) -> None:
        """Checks the options."""
        normalize_options(self)
        for name in ("validation", "test"):
            check_number(name, getattr(self, name), lambda x: 0 < x < 1, "above 0 and below 1")
        shares = (self.validation, self.test)
        shown = f"{shares[0]:g} and {shares[1]:g}"
        check(sum(shares) < 1, "validation and test", shown, "together below 1")
        check_count("number", self.number, 1)
        check_count("simulations", self.simulations, 1)
        for plies in self.opening_plies:
            check_count("opening_plies", plies, 0)
        check(bool(self.opening_plies), "opening_plies", "empty", "at least one number")
        limits, meaning = "at least 0 and less than 1", "for the default of the engine"
        check_number("random_share", self.random_share, lambda x: 0 <= x < 1, limits, meaning)


@dataclasses.dataclass(frozen=True)
class LearningOptions:
    """Options of the stages that learn positions of a data set."""

    num_iterations: int = 40
    """Iterations. A resumed run may not have more, as the learning rate depends on it."""
    num_updates: int = 100
    """Optimiser steps per iteration."""
    batch_size: int = 256
    """Positions per optimiser step."""
    learning_rate: float = 2e-3
    """Peak of the schedule: a linear warm-up, then a cosine decay to a tenth of the peak."""
    warmup_steps: int = 50
    """Optimiser steps of the warm-up."""
    weight_decay: float = 1e-4
    """Weight decay of AdamW, on matrices and kernels only."""
    augment: bool | None = None
    """Whether to apply a uniformly sampled symmetry of the game to each position; by default if the
    game has symmetries."""
    eval_every: int = 5
    """Iterations between evals; 0 runs evals only at the end."""
    max_positions: int = 10_000
    """Largest number of positions per eval; the last evals of the supervised stage use all."""

    def __post_init__(self) -> None:
        """Checks the options."""
        normalize_options(self)
        for name in ("num_iterations", "num_updates", "batch_size", "max_positions"):
            check_count(name, getattr(self, name), 1)
        for name in ("warmup_steps", "eval_every"):
            check_count(name, getattr(self, name), 0)
        check_positive(self, "learning_rate")
        check_not_negative(self, "weight_decay")


@dataclasses.dataclass(frozen=True)
class SupervisedOptions(LearningOptions):
    """Options of the supervised stage: the policy network and the rollout policy."""


@dataclasses.dataclass(frozen=True)
class ReinforceOptions:
    """Options of the policy by reinforcement."""

    num_iterations: int = 400
    """Iterations, each with one opponent from the pool. A resumed run of this stage alone may
    have more."""
    num_games: int = 128
    """Games per iteration, an even number: the current policy moves first in half of them."""
    learning_rate: float = 0.02
    """Learning rate of the policy, which is constant. Gradients of a batch of games mostly have a
    larger norm than max_gradient_norm, so sgd moves the parameters by about the product of the two
    per iteration. adam needs a much smaller rate, such as 1e-4."""
    value_learning_rate: float = 1e-3
    """Learning rate of the baseline, which is trained by Adam."""
    optimizer: Literal["sgd", "adam"] = "sgd"
    """The optimiser of the policy: stochastic gradient ascent, as in the paper, or Adam."""
    max_gradient_norm: float = 1.0
    """Gradients are scaled down to this global norm; inf disables clipping."""
    pool_every: int = 20
    """Iterations after which the current policy joins the pool of opponents."""
    pool_size: int = 20
    """Largest number of policies in the pool. A full pool replaces its oldest policy, but never the
    supervised one; 1 plays against the supervised policy only."""
    baseline: Literal["value", "none"] = "value"
    """The baseline that is subtracted from a game's result: the output of the value network, which
    is trained by regression on the same games, or none."""
    max_plies: int = 1024
    """Plies after which a game is stopped, and counts as a draw."""
    opening_plies: int = 0
    """Each pair of games begins with 0 to this many uniformly random plies, which are not learned.
    The paper's games begin at the start."""
    eval_every: int = 20
    """Iterations between matches with the supervised policy; 0 plays one only at the end."""
    eval_games: int = 400
    """Games of such a match, an even number. The match at the end has at least 1,000 games."""
    eval_opening_plies: int = 4
    """The evals also play games in which both players choose their likeliest moves. Each pair of
    them begins with 0 to this many uniformly random plies, without which all would be the same."""

    def __post_init__(self) -> None:
        """Checks the options."""
        normalize_options(self)
        for name in ("num_iterations", "pool_every", "pool_size", "max_plies"):
            check_count(name, getattr(self, name), 1)
        for name in ("eval_every", "opening_plies", "eval_opening_plies"):
            check_count(name, getattr(self, name), 0)
        for name in ("num_games", "eval_games"):
            check_even(name, getattr(self, name))
        check_positive(self, "learning_rate", "value_learning_rate")
        check_norm("max_gradient_norm", self.max_gradient_norm)
        plies = max(self.opening_plies, self.eval_opening_plies)
        remedy = f"above {plies}, the larger one of opening_plies and eval_opening_plies"
        check(plies < self.max_plies, "max_plies", self.max_plies, remedy)


@dataclasses.dataclass(frozen=True)
class ValueOptions(LearningOptions):
    """Options of the value network."""

    num_iterations: int = 15
    """Iterations of the regression. With many more passes over the positions, the network learns
    the results of the games by heart."""
    num_games: int = 50_000
    """Games that are played. Each gives one position for the value network; games that are over
    before that position are dropped."""
    max_opening_plies: int | None = None
    """Largest number U of moves before the position of a game, which is sampled uniformly from 1: U
    - 1 moves of the supervised policy and one random move. By default one less than the longest of
    games_per_batch games of the supervised policy; the paper has 450 for Go."""
    test_share: float = 0.1
    """Share of the games that are held out for the test, in (0, 1)."""
    positions: Literal["one", "all"] = "one"
    """The positions that the value network of the stage learns. one: one per game, as in the paper.
    all: all positions after the random move."""
    max_plies: int = 1024
    """Plies after which a game is stopped and dropped."""
    games_per_batch: int = 512
    """Games that are played at once."""

    def __post_init__(self) -> None:
        """Checks the options."""
        super().__post_init__()
        for name in ("num_games", "max_plies", "games_per_batch"):
            check_count(name, getattr(self, name), 1)
        # Each game has one position at most.
        is_enough = self.positions == "all" or self.batch_size <= self.num_games
        check(is_enough, "batch_size", self.batch_size, f"at most num_games, {self.num_games}")
        if self.max_opening_plies is not None:
            check_count("max_opening_plies", self.max_opening_plies, 1)
            is_short = self.max_opening_plies < self.max_plies
            check(is_short, "max_opening_plies", self.max_opening_plies, "less than max_plies")
        limits = "above 0 and below 1"
        check_number("test_share", self.test_share, lambda x: 0 < x < 1, limits)


@dataclasses.dataclass(frozen=True)
class PlayerOptions:
    """Options of the player and of its match."""

    rollout_mixes: tuple[float, ...] = (0.0, 0.5, 1.0)
    """Weights λ of the rollouts, each in [0, 1]; the search with each is a player of the match."""
    num_simulations: int = 85
    """Simulations per move of all players that search."""
    num_games: int = 100
    """Games per pair of players, an even number."""
    prior: Literal["supervised", "reinforced"] = "supervised"
    """The policy that gives the prior probabilities of the search; the paper uses the supervised
    policy, because it is more diverse."""
    c_puct: float = 5.0
    """Weight c of exploration in the search with rollouts; 5 is the paper's."""
    openings: Literal["balanced", "random"] = "balanced"
    """balanced: random openings that perfect play draws, in solvable games, or else those whose
    value by the value network is near 0. random: any. If there are too few balanced openings,
    random ones are played. Each opening is played twice, with sides swapped."""
    opening_plies: tuple[int, ...] = (2, 3, 4)
    """Lengths of the openings in plies; each opening samples one of them."""

    def __post_init__(self) -> None:
        """Checks the options."""
        normalize_options(self)
        mixes = self.rollout_mixes
        are_shares = bool(mixes) and all(0 <= x <= 1 for x in mixes)
        is_valid = are_shares and len(set(mixes)) == len(mixes)
        shown = " ".join(map(str, mixes)) or "empty"
        check(is_valid, "rollout_mixes", shown, "different numbers between 0 and 1")
        check_count("num_simulations", self.num_simulations, 1)
        check_even("num_games", self.num_games)
        check_positive(self, "c_puct")
        plies = self.opening_plies
        are_lengths = bool(plies) and all(1 <= x < MAX_PLIES for x in plies)
        shown = " ".join(map(str, plies)) or "empty"
        check(are_lengths, "opening_plies", shown, f"numbers from 1 to {MAX_PLIES - 1}")
