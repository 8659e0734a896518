"""Answers to the messages about networks and positions."""

import functools
from concurrent.futures import Executor

import games
from dualmctx.version import __version__
from dualmctx.web.checkpoints import describe_trained
from dualmctx.web.engines import Network
from dualmctx.web.limits import MAX_MESSAGE_BYTES, MAX_MOVES, MAX_RECORDED
from dualmctx.web.positions import describe_position, find_exact, open_position
from dualmctx.web.protocol import Message
from dualmctx.web.session import Session
from games import GamePosition

LOADING, OPENING = "loading the network", "setting up the position"
SOLVING = "solving the game"


async def answer_hello(session: Session, message: Message) -> None:
    """Answers `hello` with `welcome`; needs no network."""
    context = session.context
    await session.send(
        {
            "type": "welcome",
            "id": message.id,
            "version": __version__,
            "checkpoints": [offered.describe() for offered in context.offered],
            "default": context.offered[0].name,
            "limits": {
                "simulations": context.limits.simulations,
                "message_bytes": MAX_MESSAGE_BYTES,
                "moves": MAX_MOVES,
                "recorded_simulations": MAX_RECORDED,
            },
        }
    )


async def answer_open(session: Session, message: Message) -> None:
    """Answers `open` with `opened`; starts the compilation of the default search."""
    start, executor = session.context.engines.engine, loading_executor(session, message)
    await session.call(message, LOADING, start, message.checkpoint, executor=executor)
    network = await load_network(session, message)
    session.checkpoint = message.checkpoint
    about = describe_trained(network.trained, network.build)
    head = {"type": "opened", "id": message.id, "checkpoint": message.checkpoint}
    await session.send(head | about)


async def answer_position(session: Session, message: Message) -> None:
    """Answers `position`."""
    network = await load_network(session, message)
    opened = await open_moves(session, message, network)
    describe = functools.partial(describe_position, network.trained.env, opened)
    about = await session.call(message, OPENING, describe)
    await session.send({"type": "position", "id": message.id} | about)


async def answer_exact(session: Session, message: Message) -> None:
    """Answers `exact`; the value is null if it is unknown."""
    network = await load_network(session, message)
    opened = await open_moves(session, message, network)
    find = functools.partial(find_exact, network.trained.env, opened)
    found = await session.call(message, SOLVING, find, executor=session.context.slow)
    unknown = {"source": games.exact_source(network.trained.env), "value": None, "moves": {}}
    await session.send({"type": "exact", "id": message.id} | (found or unknown))


async def load_network(session: Session, message: Message) -> Network:
    """Returns the network of a message.

    Raises:
      ValueError: if there is no such network, or it cannot be loaded.
    """
    load, executor = session.context.engines.network, loading_executor(session, message)
    return await session.call(message, LOADING, load, message.checkpoint, executor=executor)


def loading_executor(session: Session, message: Message) -> Executor:
    """Returns the executor for work with a network: `loading` until the network is ready."""
    context = session.context
    return context.quick if context.engines.is_ready(message.checkpoint) else context.loading


async def open_moves(session: Session, message: Message, network: Network) -> GamePosition:
    """Returns the position of a message.

    Raises:
      ValueError: if a move cannot be read or is illegal, or the FEN is wrong.
    """
    question = message.question()
    return await session.call(message, OPENING, open_position, network.trained.env, question)
