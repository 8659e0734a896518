"""Answers to the messages that take long: the review of a game, and the recording of a search."""

from dualmctx.web.counter import Counter, Stopped
from dualmctx.web.game_evaluation import chosen_policy
from dualmctx.web.handlers import load_network
from dualmctx.web.protocol import Message
from dualmctx.web.session import Session

REVIEWING = "evaluating the positions"


async def answer_review(session: Session, message: Message) -> None:
    """Answers `review` with `reviewed`, or with `stopped`; replaces a review of the same page."""
    session.stop(lambda other: other.type == message.type)
    network, counter = await load_network(session, message), Counter()
    policy = chosen_policy(network.build, message, session.context.limits.simulations)
    with session.stoppable(message, counter.stop):
        try:
            rows = await session.call(
                message,
                REVIEWING,
                network.games.review,
                message,
                policy,
                counter,
                executor=session.context.slow,
                counter=counter,
            )
        except Stopped:
            await session.send({"type": "stopped", "id": message.id})
            return
    await session.send_large(message, {"type": "reviewed", "id": message.id, "positions": rows})
