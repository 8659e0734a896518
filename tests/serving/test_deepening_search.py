"""Tasks on kept trees: deeper searches of a position, continuations, and dropped trees."""

import copy
import functools
import itertools
from typing import Any

import pytest

import games
from dualmctx.evaluation.answers import answer
from dualmctx.evaluation.factory import build_evaluator
from dualmctx.game_files.questions import Question
from dualmctx.policies import AlphaZero, Dual
from dualmctx.serving import tree_pool
from dualmctx.serving.deepening_search import DeepeningSearch
from dualmctx.serving.requests import Analysis, Request
from dualmctx.serving.tasks import EngineOptions, Program, Task, to_chunk
from dualmctx.serving.tree_pool import PoolSize, TreePool, choose_pool_size
from untrained import make_untrained

BATCH, CHUNK, CAPACITY = 2, 16, 64
ORDER = itertools.count()


@functools.cache
def make_pool(preset: str, policy: Any) -> tuple[Any, TreePool]:
    """Returns a game, and a pool with room for four trees."""
    trained, chunk = make_untrained(preset), to_chunk(policy.for_evaluation(), CHUNK)
    if preset == "connect-four":
        env: Any = copy.copy(trained.env)
        # Positions as text are the columns of moves.
        env.from_fen = lambda text: games.open_position(env, text).state
        trained = trained._replace(env=env)
    pool = TreePool(trained, chunk, PoolSize(CAPACITY, 2 * BATCH), EngineOptions(BATCH))
    return trained.env, pool


def new_search(preset: str = "connect-four", policy: Any = AlphaZero()) -> DeepeningSearch:  # noqa: B008
    return DeepeningSearch(*make_pool(preset, policy))


def task(moves: Any, simulations: int = CHUNK, fen: str | None = None, **settings: Any) -> Task:
    question = Question(1, "q", moves, fen)
    request = Request(question, analysis=Analysis(simulations=(simulations,), **settings))
    return Task(request, next(ORDER), Program(AlphaZero(), deepens=True), simulations)


def run(search: DeepeningSearch, *tasks: Task) -> list[Any]:
    """Runs tasks to their ends, in batches; returns their rows."""
    waiting = list(tasks)
    while waiting:
        batch = waiting[:BATCH]
        search.step(batch)
        for x in batch:
            if x.is_over or x.simulations >= x.target:
                search.finish(x)
                waiting.remove(x)
    return [x.result() for x in tasks]


def visits(row: Any) -> list[int]:
    return [x["visits"] for x in row["legal"]]


def assert_same_rows(row: Any, expected: Any) -> None:
    """Compares rows; the last digits may differ between programs."""
    assert row.keys() == expected.keys()
    assert (row["move"], row["pv"], visits(row)) == (
        *(expected["move"], expected["pv"], visits(expected)),
    )
    assert row["value"] == pytest.approx(expected["value"], abs=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("unpredicted")
def test_first_chunk_is_the_search_of_evaluate() -> None:
    """Both have 16 simulations, of two trees."""
    policy = Dual((24, 8), 4).for_evaluation()
    search = new_search("nim", policy)
    chunk = to_chunk(policy, CHUNK)
    evaluator = build_evaluator(make_untrained("nim"), chunk, batch_size=BATCH)
    [answered] = answer(evaluator, [[Question(1, "q", "1"), Question(1, "q", "2")]])
    rows = run(search, task("1"), task("2"))
    for row, expected in zip(rows, answered.rows, strict=True):
        assert_same_rows(row, expected)


@pytest.mark.slow
def test_position_is_searched_deeper_from_its_tree() -> None:
    search, first, deeper = new_search(), task("4"), task("4", 48)
    [row] = run(search, first)
    assert (first.simulations, first.reused, sum(visits(row))) == (16, 0, 16)
    [row] = run(search, deeper)
    assert (deeper.simulations, deeper.reused, sum(visits(row))) == (48, 16, 48)
    afresh = task("4", 48, reuse=False)
    [expected] = run(search, afresh)
    assert afresh.reused == 0
    assert_same_rows(row, expected)
    # A task that asks for no more gets the result at once.
    fewer = task([3], 32)
    [row] = run(search, fewer)
    assert (fewer.simulations, fewer.reused) == (48, 48)
    assert_same_rows(row, expected)
    assert search.num_kept == 1


@pytest.mark.slow
def test_continuation_starts_with_the_subtree() -> None:
    search = new_search()
    [row] = run(search, task("4", 64))
    best = row["move"]
    child = task(f"4{best}")
    [row_of_child] = run(search, child)
    # The first of the visits of a child is its own evaluation.
    assert child.reused == max(visits(row)) - 1 > 0
    assert child.simulations == child.reused + CHUNK == sum(visits(row_of_child))
    # The tree of the position before is still there.
    again = task("4", 64)
    run(search, again)
    assert again.reused == 64
    # Two moves at once; and a move that leads elsewhere.
    search.clear()
    run(search, task("4", 64))
    grandchild, other = task(f"4{row['pv'][0]}{row['pv'][1]}"), task("1")
    run(search, grandchild, other)
    assert 0 == other.reused <= grandchild.reused < child.reused


def test_least_recently_used_tree_is_dropped() -> None:
    search = new_search()
    for moves in "1234":
        run(search, task(moves))
    assert search.num_kept == 4
    used = task("1")
    run(search, used, task("5"))
    assert used.reused == CHUNK
    reused = {moves: task(moves, 32) for moves in "134"}
    for moves, x in reused.items():
        run(search, x)
        assert x.reused == CHUNK, moves
    dropped = task("2")
    run(search, dropped)
    assert dropped.reused == 0
    search.clear()
    assert search.num_kept == 0


def test_interrupted_tasks_lose_their_trees_last() -> None:
    """Six tasks need more trees than the pool has; the last ones keep results but start again."""
    search, tasks = new_search(), [task(moves, 32) for moves in ("1", "2", "3", "4", "5", "6")]
    run(search, task("3"))
    for pair in (tasks[:2], tasks[2:4], tasks[4:]):
        search.step(pair)
    assert [x in search._trees.running for x in tasks] == [True, True, False, False, True, True]
    assert [x.simulations for x in tasks] == [16, 16, 32, 16, 16, 16]
    rows = run(search, *tasks)
    assert [x.reused for x in tasks] == [0] * 6
    expected = run(search, *(task(moves, 32, reuse=False) for moves in "123456"))
    for row, other in zip(rows, expected, strict=True):
        assert_same_rows(row, other)


def test_equal_positions_in_a_batch_have_trees_of_their_own() -> None:
    search, pair = new_search(), (task("4", 32), task([3], 32))
    rows = run(search, *pair)
    assert_same_rows(*rows)
    assert search.num_kept == 1
    assert len(search._trees._free) == 3


def test_errors_and_finished_games_keep_no_tree() -> None:
    search = new_search()
    bad = [task("x", 64), task("4444444", 64), task("1213141", 64), task("12131411", 64)]
    [name, illegal, over, after] = run(search, *bad)
    assert "is not a move" in name["error"]
    assert illegal["error"] == "move 7, '4', is illegal"
    assert after["error"] == "move 8, '1', comes after the end of the game"
    assert (over["value"], over["action"], over["legal"]) == (-1.0, None, [])
    assert [x.is_over for x in bad] == [True] * 4
    assert search.num_kept == 0
    assert sorted(search._trees._free) == [0, 1, 2, 3]


def test_cancelled_task_keeps_its_tree() -> None:
    search, cancelled, waiting = new_search(), task("4", 64), task("44")
    search.step([cancelled])
    search.finish(cancelled)
    search.finish(waiting)
    again = task("4", 32)
    run(search, again)
    assert again.reused == CHUNK


@pytest.mark.slow
def test_positions_continue_from_a_fen() -> None:
    search = new_search()
    [row] = run(search, task("", 64, fen="44"))
    positions = ((row["move"], "44"), (row["move"], "45"), ("", "44"))
    tasks = [task(moves, 16, fen=fen) for moves, fen in positions]
    for one in tasks:
        run(search, one)
    assert tasks[0].reused > 0 == tasks[1].reused
    assert tasks[2].reused == 64


@pytest.mark.slow
def test_pool_fits_into_its_memory() -> None:
    trained, chunk = make_untrained("nim"), to_chunk(AlphaZero().for_evaluation(), CHUNK)

    def choose(num_bytes: int) -> PoolSize:
        return choose_pool_size(trained, chunk, EngineOptions(BATCH, 1000, num_bytes))

    capacity, num_rows, _ = choose(2**24)
    assert capacity == 1008
    assert num_rows > 4
    # Twice as many trees take twice the memory.
    assert choose(2**25).num_rows in (2 * num_rows, 2 * num_rows + 1)
    capacity, num_rows, _ = choose(2**18)
    assert (capacity % 16, capacity < 1008, num_rows >= 4) == (0, True, True)
    with pytest.raises(ValueError, match=r"4 trees of 16 simulations need .* larger --tree-memory"):
        choose(2**12)


@pytest.mark.slow
def test_large_trees_are_continued() -> None:
    """Their indices are int32; those of the other pool are int16."""
    trained, chunk = make_untrained("connect-four"), to_chunk(AlphaZero().for_evaluation(), CHUNK)
    options = EngineOptions(BATCH, 40_000)
    size = choose_pool_size(trained, chunk, options)
    assert size.capacity == 40_000
    pool = TreePool(trained, chunk, size, options)
    searches = DeepeningSearch(trained.env, pool), new_search()
    assert_same_rows(*(run(search, task("1", 3 * CHUNK))[0] for search in searches))


def test_simulations_beyond_the_capacity_are_an_error() -> None:
    search, timed = new_search(), task("4", 1000, max_time=9.0)
    [row] = run(search, task("4", 65))
    assert "simulations is 65; with this search it must be at most 64" in row["error"]
    analysis = timed.request.analysis._replace(simulations=None)
    timed.request = timed.request._replace(analysis=analysis)
    run(search, timed)
    assert timed.simulations == 64
    most = task("4", 65, is_maximum=True)
    [row] = run(search, most)
    assert "error" not in row
    assert most.simulations == 64


@pytest.mark.slow
def test_search_larger_than_the_free_memory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_pool, "free_memory", lambda: 100)
    trained, chunk = make_untrained("connect-four"), to_chunk(AlphaZero().for_evaluation(), CHUNK)
    with pytest.raises(ValueError, match=r"a batch of 2 positions needs .*fewer --simulations"):
        TreePool(trained, chunk, PoolSize(CAPACITY, 2 * BATCH), EngineOptions(BATCH))
