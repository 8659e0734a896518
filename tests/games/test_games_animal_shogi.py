"""Animal shogi in random games side by side with rules in plain Python."""

import random

import jax
import numpy as np
import pytest

import animal_shogi_rules as plain
import games

NUM_GAMES = 24


def choose(after, history, draws, wanders):
    """Chooses a move; most lead back to a known position, or move a lion, which may wander.

    A lion that wanders comes back after an odd number of moves too.
    """
    known = {action for action, position in after.items() if position in history}
    if wanders:
        known -= {action for action in known if after[action] == history[-4]}
    lions = [action for action, position in after.items() if lion(position) != lion(history[-1])]
    if known and draws.random() < 0.7:
        return draws.choice(sorted(known))
    return draws.choice(lions if lions and draws.random() < 0.7 * wanders else list(after))


def lion(position):
    return {at for at, (_, kind) in position.board if kind == plain.LION}


@pytest.mark.slow
def test_random_games_match_plain_rules():
    env, draws = games.make("animal_shogi"), random.Random(0)
    states = jax.jit(jax.vmap(env.init))(jax.random.split(jax.random.PRNGKey(0), NUM_GAMES))
    step = jax.jit(jax.vmap(env.step))
    histories = [[plain.start()] for _ in range(NUM_GAMES)]
    first, live, seen = np.asarray(states.current_player), set(range(NUM_GAMES)), set()
    codes = {}
    while live:
        states = jax.device_get(states)
        actions = np.zeros(NUM_GAMES, np.int32)
        for index in sorted(live):
            history = histories[index]
            result, after = plain.result(history), dict(plain.moves(history[-1]))
            code = tuple(states._zobrist_hash[index].tolist())
            assert codes.setdefault(code, history[-1]) == history[-1]
            assert states.terminated[index] == (result is not None), (index, len(history))
            mover = first[index] ^ 1 ^ history[-1].side
            expected = [-(result or 0), result or 0] if mover else [result or 0, -(result or 0)]
            assert states.rewards[index].tolist() == expected
            if result is not None:
                live.remove(index)
                seen.add((result, len(history) > 256))
                if result == 0 and any(map(any, history[-1].hands)):
                    seen.add("hand")
                continue
            assert np.flatnonzero(states.legal_action_mask[index]).tolist() == sorted(after)
            actions[index] = choose(after, history, draws, index % 2)
            history.append(after[actions[index]])
        states = step(states, actions)
    assert seen >= {(1, False), (0, False), "hand"}
    assert len(codes) == len({position for history in histories for position in history})
