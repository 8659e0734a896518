"""A session in the terminal: the game, the settings, and the search that plays."""

import dataclasses
from pathlib import Path
from typing import NamedTuple

import numpy as np

import games
from dualmctx.commands.terminal.game import Game, legal_names, result
from dualmctx.commands.terminal.search import search
from dualmctx.commands.terminal.settings import Settings
from dualmctx.commands.terminal.text import board_text, describe_notation, describe_value, wrap
from dualmctx.errors import UserError
from dualmctx.evaluation.chunks import total_simulations
from dualmctx.evaluation.fields import Row
from dualmctx.evaluation.requests import Analysis
from dualmctx.policies.names import variant_of
from dualmctx.runs.saved_policy import with_simulations
from dualmctx.types import Policy
from dualmctx.web.analysis import choose_move, to_analysis
from dualmctx.web.checkpoints import title
from dualmctx.web.engine import Engine
from dualmctx.web.engines import Network
from games.pictures import player_names

_SECONDS_FOR_EXACT = 2.0
_RESULTS = {"1-0": 0, "0-1": 1}


class Thought(NamedTuple):
    """The end of a search.

    Attributes:
      found: the fields of `to_analysis`, and the action that the search selects; `None` if the
        search was stopped before its first result.
      is_stopped: whether Ctrl-C ended it.
    """

    found: Row | None
    is_stopped: bool


class Session:
    """A game against a search.

    Attributes:
      name: the name of the network.
      env: the game of the network.
      players: the names of its two players.
      game: the moves.
      opened: the position after them.
      settings: the settings.
      max_simulations: the largest number of simulations of a position.
      saved: files that the session has written, and may replace.
      is_done: whether the session is to end.
    """

    def __init__(
        self,
        name: str,
        network: Network,
        engine: Engine,
        max_simulations: int,
        seed: int | None = None,
    ) -> None:
        """Begins a game.

        Args:
          name: the name of the network.
          network: the network.
          engine: its searches.
          max_simulations: the largest number of simulations of a position.
          seed: seed of the sampled moves; `None` for another one in each session.
        """
        self._network, self._engine, self._rng = network, engine, np.random.default_rng(seed)
        self.name, self.env, self.max_simulations = name, network.trained.env, max_simulations
        self.players, self.settings = player_names(self.env.id), Settings()
        self.saved: set[Path] = set()
        self.is_done = False
        self.set_game(Game(self.env))

    def set_game(self, game: Game) -> None:
        """Replaces the game."""
        self.game, self.opened = game, game.open()

    def change(self, **values: object) -> None:
        """Replaces settings."""
        self.settings = dataclasses.replace(self.settings, **values)  # pyright: ignore

    @property
    def is_over(self) -> bool:
        """Whether the game is over or given up."""
        return self.opened.is_over or self.game.resigned is not None

    @property
    def player(self) -> str:
        """The name of the player to move."""
        return self.players[self.opened.side]

    def legal(self) -> dict[int, str]:
        """Returns the names of the legal moves by action; raises a ValueError if there is none."""
        if self.is_over:
            raise UserError("The game is over: type new, undo, save FILE or quit.")
        return legal_names(self.env, self.opened)

    # Text.

    def prompt(self) -> str:
        """Returns the text before a line of input."""
        return "game over> " if self.is_over else f"{self.player}> "

    def welcome(self) -> None:
        """Prints the game, the search and the board."""
        parameters = self._network.trained.record.get("game_parameters") or {}
        game = title(self.env.id, parameters)
        print(wrap(f"{game} against {self.name}, {self.describe_search()}."))
        print(f"You play {self.players[0]} and move first.")
        print(f"Type a move ({describe_notation(self.env)}), or help.\n")
        self.show_board()

    def show_board(self) -> None:
        """Prints the board and, if the game is over, its outcome."""
        before = self.opened.before if self.game.actions else None
        print(board_text(self.env, self.opened.state, before))
        if self.is_over:
            print(self.outcome())

    def outcome(self) -> str:
        """Describes the result for the person, if there is one."""
        side, people = _RESULTS.get(result(self.game, self.opened)), self.settings.people
        if side is None:
            return "The game is drawn."
        if len(people) != 1:
            return f"{self.players[side]} has won."
        return "You have won." if side in people else "You have lost."

    # The search.

    def describe_search(self) -> str:
        """Describes the search that plays."""
        policy = self._policy(self.settings.variant, self.settings.simulations)
        budgets = np.atleast_1d(policy.num_simulations).tolist()
        return f"{variant_of(policy)} with {','.join(map(str, budgets))} simulations per move"

    def set_search(self, variant: str | None, simulations: tuple[int, ...] | None) -> None:
        """Sets the search; raises a ValueError if there is none, or it is too large."""
        self._policy(variant, simulations)
        self.change(variant=variant, simulations=simulations)

    def num_simulations(self) -> int:
        """Returns the simulations per move, of all trees together."""
        return total_simulations(self._policy(self.settings.variant, self.settings.simulations))

    def _policy(self, variant: str | None, simulations: tuple[int, ...] | None) -> Policy:
        policy = self._network.build(variant)
        policy = policy if simulations is None else with_simulations(policy, simulations)
        total = total_simulations(policy)
        if total > self.max_simulations:
            raise UserError(
                f"{total} simulations are more than {self.max_simulations}: choose fewer, or "
                "start with a larger --max-simulations."
            )
        return policy

    def think(self, simulations: tuple[int, ...] | None = None) -> Thought:
        """Searches the position with its own or another number of simulations.

        Raises:
          ValueError: if the search failed.
          KeyboardInterrupt: at a second Ctrl-C, or after SIGTERM.
        """
        variant, own = self.settings.variant, self.settings.simulations
        analysis = Analysis(variant, simulations or own, report_every=0.5)
        row, is_stopped = search(self._engine, self.game.question, analysis)
        if row is None:
            return Thought(None, is_stopped)
        found = to_analysis(self.env, self.opened, row, self._network.build(variant))
        return Thought(found | {"action": row["action"]}, is_stopped)

    def exact_values(self) -> games.ExactValues | None:
        """Returns the exact values of the position; `None` if they are unknown."""
        return games.exact_values(self.env, self.opened.state, _SECONDS_FOR_EXACT)

    # Moves.

    def play(self, action: int) -> None:
        """Plays a legal move of a person; raises a ValueError if the game is over."""
        self.legal()
        self.set_game(self.game.play(action))
        # The answer of the search shows the board.
        if self.is_over or self.opened.side in self.settings.people:
            self.show_board()

    def answer(self) -> None:
        """Plays the moves of the search until a person is to move or the game is over."""
        while not self.is_over and self.opened.side not in self.settings.people:
            try:
                found, is_stopped = self.think()
            except UserError:
                # Otherwise the same search would fail again and again.
                self.change(people=(0, 1))
                raise
            if found is not None:
                self._play_found(found)
            if is_stopped and (found is None or not self.settings.people):
                self.change(people=(0, 1))
                print("The search was stopped. You play both sides now; type side to change it.")

    def _play_found(self, found: Row) -> None:
        move = choose_move(found["moves"], found["action"], self.settings.temperature, self._rng)
        value = describe_value(found["value"])
        print(f"\n{self.player} plays {move['name']} (value {value})")
        self.set_game(self.game.play(move["action"]))
        self.show_board()
