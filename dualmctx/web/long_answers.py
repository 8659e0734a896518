"""Answers to the messages that take long: the review of a game, and the recording of a search."""

from collections.abc import Callable

from dualmctx.errors import UserError
from dualmctx.evaluation.compiled_searches import release_memory
from dualmctx.evaluation.tasks import total_simulations
from dualmctx.types import Policy
from dualmctx.visualization import record_trained
from dualmctx.web.counter import Counter, Stopped
from dualmctx.web.engines import Network
from dualmctx.web.game_evaluation import chosen_policy
from dualmctx.web.handlers import load_network, open_moves
from dualmctx.web.limits import MAX_RECORDED
from dualmctx.web.protocol import Message, Row
from dualmctx.web.session import Session

Work = Callable[[Policy, Counter], Row]
"""Takes the search and counts its work; returns the fields of the answer."""


async def answer_review(session: Session, message: Message) -> None:
    """Answers `review` with `reviewed`."""
    network = await load_network(session, message)

    def review(policy: Policy, counter: Counter) -> Row:
        rows = network.games.review(message, policy, counter)
        return {"type": "reviewed", "id": message.id, "positions": rows}

    await _answer_long(session, message, network, "evaluating the positions", review)


async def answer_record_search(session: Session, message: Message) -> None:
    """Answers `record_search` with `recording`."""
    network = await load_network(session, message)
    opened = await open_moves(session, message, network)

    def record(policy: Policy, counter: Counter) -> Row:
        _check_recorded(policy)
        recording = record_trained(
            network.trained,
            opened.actions,
            fen=message.fen,
            policy=policy,
            seed=network.seed,
            compare=message.compare,
            progress=counter,
            name=message.checkpoint,
        )
        release_memory()
        return {"type": "recording", "id": message.id, "recording": recording}

    await _answer_long(session, message, network, "recording the search", record)


def _check_recorded(policy: Policy) -> None:
    number = total_simulations(policy)
    if number > MAX_RECORDED:
        raise UserError(
            f"simulations is {number}; the recording of a page has at most {MAX_RECORDED}: choose"
            " fewer, or write a larger recording with dualmctx tree"
        )


async def _answer_long(
    session: Session, message: Message, network: Network, stage: str, work: Work
) -> None:
    """Does long work in a thread, and sends its answer, or `stopped`.

    It replaces work of the same type for the same page.
    """
    session.stop(lambda other: other.type == message.type)
    counter = Counter()
    policy = chosen_policy(network.build, message, session.context.limits.simulations)
    slow = session.context.slow
    with session.stoppable(counter.stop):
        try:
            row = await session.call(
                message, stage, work, policy, counter, executor=slow, counter=counter
            )
        except Stopped:
            await session.send({"type": "stopped", "id": message.id})
            return
    await session.send_large(message, row)
