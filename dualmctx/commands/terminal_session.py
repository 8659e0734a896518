"""A session in the terminal: the game, the settings, and the commands that change them."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np

import games
from dualmctx.commands.terminal_commands import describe_commands
from dualmctx.commands.terminal_files import read_file, read_game, save_game
from dualmctx.commands.terminal_game import Game, legal_names, read_sides, result, undo
from dualmctx.commands.terminal_search import search
from dualmctx.commands.terminal_settings import Settings, read_simulations, read_temperature
from dualmctx.commands.terminal_text import (
    analysis_table,
    board_text,
    describe_exact,
    describe_notation,
    describe_value,
    list_moves,
    wrap,
)
from dualmctx.evaluation.fields import Row
from dualmctx.evaluation.requests import Analysis
from dualmctx.runs.saved_policy import with_simulations
from dualmctx.types import Policy
from dualmctx.web.analysis import choose_move, to_analysis
from dualmctx.web.checkpoints import title, variant_name
from dualmctx.web.engine import Engine
from dualmctx.web.engines import Network
from games.pictures import player_names

_SECONDS_FOR_EXACT = 2.0
_RESULTS = {"1-0": 0, "0-1": 1}


class Session:
    """A game against a search. Every method prints what it did."""

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
        self._name, self._network, self._engine = name, network, engine
        self._max_simulations, self._rng = max_simulations, np.random.default_rng(seed)
        self.env = network.trained.env
        self._players, self._settings = player_names(self.env.id), Settings()
        self._saved: set[Path] = set()
        self._set(Game(self.env))

    def _set(self, game: Game) -> None:
        self._game, self.opened = game, game.open()

    def _change(self, **values: object) -> None:
        self._settings = dataclasses.replace(self._settings, **values)  # pyright: ignore

    @property
    def _is_over(self) -> bool:
        return self.opened.is_over or self._game.resigned is not None

    @property
    def _player(self) -> str:
        return self._players[self.opened.side]

    def prompt(self) -> str:
        """Returns the text before a line of input."""
        return "game over> " if self._is_over else f"{self._player}> "

    def welcome(self) -> None:
        """Prints the game, the search and the board."""
        parameters = self._network.trained.record.get("game_parameters") or {}
        print(wrap(f"{title(self.env.id, parameters)} against {self._name}, {self._search()}."))
        print(f"You play {self._players[0]} and move first.")
        print(f"Type a move ({describe_notation(self.env)}), or help.\n")
        self._board("")

    def _search(self) -> str:
        """Describes the search that plays."""
        policy = self._policy(self._settings.variant, self._settings.simulations)
        budgets = np.atleast_1d(policy.num_simulations).tolist()
        return f"{variant_name(policy)} with {','.join(map(str, budgets))} simulations per move"

    def _policy(self, variant: str | None, simulations: tuple[int, ...] | None) -> Policy:
        """Builds a search; raises a ValueError if there is none, or it is too large."""
        policy = self._network.build(variant)
        policy = policy if simulations is None else with_simulations(policy, simulations)
        total = int(np.sum(policy.num_simulations))
        if total > self._max_simulations:
            raise ValueError(
                f"{total} simulations are more than {self._max_simulations}: choose fewer, or "
                "start with a larger --max-simulations."
            )
        return policy

    # Moves.

    def play(self, action: int) -> None:
        """Plays a legal move of a person."""
        if self._is_over:
            raise ValueError("The game is over: type new, undo, save FILE or quit.")
        self._set(self._game.play(action))
        # The answer of the search shows the board.
        if self._is_over or self.opened.side in self._settings.people:
            self._board("")

    def answer(self) -> None:
        """Plays the moves of the search until a person is to move or the game is over."""
        while not self._is_over and self.opened.side not in self._settings.people:
            try:
                found, is_stopped = self._think(self._analysis())
            except ValueError:
                # Otherwise the same search would fail again and again.
                self._change(people=(0, 1))
                raise
            if found is not None:
                temperature = self._settings.temperature
                move = choose_move(found["moves"], found["action"], temperature, self._rng)
                value = describe_value(found["value"])
                print(f"\n{self._player} plays {move['name']} (value {value})")
                self._set(self._game.play(move["action"]))
                self._board("")
            if is_stopped and (found is None or not self._settings.people):
                self._change(people=(0, 1))
                print("The search was stopped. You play both sides now; type side to change it.")

    def _analysis(self, simulations: tuple[int, ...] | None = None) -> Analysis:
        settings = self._settings
        return Analysis(settings.variant, simulations or settings.simulations, report_every=0.5)

    def _think(self, analysis: Analysis) -> tuple[Row | None, bool]:
        """Searches the position; returns its analysis, if there is one, and whether it was stopped.

        The analysis also has the action that the search selects.
        """
        row, is_stopped = search(self._engine, self._game.question, analysis)
        if row is None:
            return None, is_stopped
        variant = analysis.variant or ""
        found = to_analysis(self.env, self.opened, row, variant)
        return found | {"action": row["action"]}, is_stopped

    # Commands.

    def run(self, command: str, text: str) -> bool:
        """Runs a command with its argument; returns whether the session goes on.

        Raises:
          ValueError: if the argument is wrong, or the command is not possible now.
          OSError: if a file cannot be read or written.
        """
        if command == "quit":
            return False
        commands: dict[str, Callable[[str], None]] = {
            "help": self._help,
            "moves": self._moves,
            "hint": self._hint,
            "analyse": self._analyse,
            "exact": self._exact,
            "board": self._board,
            "record": self._record,
            "undo": self._undo,
            "new": self._new,
            "resign": self._resign,
            "side": self._side,
            "level": self._level,
            "variant": self._variant,
            "temperature": self._temperature,
            "position": self._position,
            "save": self._save,
            "load": self._load,
        }
        commands[command](text)
        return True

    def _help(self, text: str) -> None:
        print(describe_commands(describe_notation(self.env)))

    def _legal(self) -> dict[int, str]:
        if self._is_over:
            raise ValueError("The game is over: type new, undo, save FILE or quit.")
        return legal_names(self.env, self.opened)

    def _moves(self, text: str) -> None:
        print(list_moves(list(self._legal().values())))

    def _hint(self, text: str) -> None:
        self._legal()
        found, _ = self._think(self._analysis())
        if found is None:
            raise ValueError("The search was stopped before it had a result.")
        move = next(x for x in found["moves"] if x["action"] == found["action"])
        print(f"The search would play {move['name']} (value {describe_value(found['value'])}).")

    def _analyse(self, text: str) -> None:
        self._legal()
        policy = self._policy(self._settings.variant, self._settings.simulations)
        most, own = self._max_simulations, int(np.sum(policy.num_simulations))
        number = read_simulations(text, most) if text else min(most, 4 * own)
        found, _ = self._think(self._analysis((number,)))
        if found is None:
            raise ValueError("The search was stopped before it had a result.")
        print(analysis_table(found, self._exact_values(), self._player))

    def _exact_values(self) -> games.ExactValues | None:
        return games.exact_values(self.env, self.opened.state, _SECONDS_FOR_EXACT)

    def _exact(self, text: str) -> None:
        names = self._legal()
        if games.exact_source(self.env) is None:
            remedy = "; install bitbully for it" if self.env.id == "connect_four" else ""
            raise ValueError(f"{self.env.id} has no exact values{remedy}.")
        print(describe_exact(self._exact_values(), names, self._player))

    def _board(self, text: str) -> None:
        before = self.opened.before if self._game.actions else None
        print(board_text(self.env, self.opened.state, before))
        if self._is_over:
            print(self._outcome())

    def _outcome(self) -> str:
        """Describes the result for the person, if there is one."""
        side, people = _RESULTS.get(result(self._game, self.opened)), self._settings.people
        if side is None:
            return "The game is drawn."
        if len(people) != 1:
            return f"{self._players[side]} has won."
        return "You have won." if side in people else "You have lost."

    def _record(self, text: str) -> None:
        start = "" if self._game.fen is None else f" from {self._game.fen}"
        print(wrap(f"Moves{start}: {' '.join(self._game.names()) or 'none'}", "  "))

    def _undo(self, text: str) -> None:
        self._set(undo(self._game, self._settings.people))
        self._board("")

    def _new(self, text: str) -> None:
        self._set(Game(self.env))
        self._board("")

    def _resign(self, text: str) -> None:
        self._legal()
        people = self._settings.people
        side = self.opened.side if self.opened.side in people or not people else people[0]
        self._game = dataclasses.replace(self._game, resigned=side)
        print(f"{self._players[side]} resigns. {self._outcome()}")

    def _side(self, text: str) -> None:
        people = read_sides(self.env, text)
        self._change(people=people)
        names = " and ".join(self._players[side] for side in people)
        print(f"You play {names}." if people else "The search plays both sides; Ctrl-C stops it.")

    def _level(self, text: str) -> None:
        if text:
            most = self._max_simulations
            parts = tuple(read_simulations(part, most) for part in text.split(","))
            self._policy(self._settings.variant, parts)
            self._change(simulations=parts)
        print(f"The search is {self._search()}.")

    def _variant(self, text: str) -> None:
        if text:
            self._policy(text, None)
            self._change(variant=text, simulations=None)
        print(f"The search is {self._search()}.")

    def _temperature(self, text: str) -> None:
        if text:
            self._change(temperature=read_temperature(text))
        value = self._settings.temperature
        print(f"The temperature is {value:g}: " + ("best moves." if not value else "varied moves."))

    # Files.

    def _position(self, text: str) -> None:
        self._set(read_game(self.env, text))
        self._change(people=(0, 1))
        self._board("")
        print("You play both sides now; type side to change it.")

    def _load(self, text: str) -> None:
        self._position(read_file(text))

    def _save(self, text: str) -> None:
        search = f"{self._name}, {self._search()}"
        players = ["person" if side in self._settings.people else search for side in (0, 1)]
        file = save_game(self._game, self.opened, players, text, self._saved)
        self._saved.add(file)
        print(f"The game is in {file}.")
