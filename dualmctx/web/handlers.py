"""Answers to the messages about networks, positions and records of games."""

import dataclasses
import datetime
import functools
import itertools
import re
from concurrent.futures import Executor

import games
from dualmctx.errors import UserError
from dualmctx.game_files.records import EXTENSIONS, check_record, read_records, write_record
from dualmctx.serving.engine import Engine
from dualmctx.types import Environment
from dualmctx.version import __version__
from dualmctx.web.descriptions import describe_position, describe_trained, find_exact, result_of
from dualmctx.web.networks import Counter, Network
from dualmctx.web.protocol import MAX_MESSAGE_BYTES, MAX_MOVES, MAX_RECORDED, Message, Row
from dualmctx.web.session import Session
from games import GamePosition

LOADING, OPENING = "loading the network", "setting up the position"
SOLVING, READING = "solving the game", "reading the record"
_RESULTS = {0: "1-0", 1: "0-1", None: "1/2-1/2"}


async def answer_hello(session: Session, message: Message) -> None:
    """Answers `hello` with `welcome`; needs no network."""
    context = session.context
    limits = {
        "simulations": context.max_simulations,
        "message_bytes": MAX_MESSAGE_BYTES,
        "moves": MAX_MOVES,
        "recorded_simulations": MAX_RECORDED,
    }
    about = {"version": __version__, "default": context.offered[0].name, "limits": limits}
    checkpoints = [offered.describe() for offered in context.offered]
    await session.answer(message, "welcome", about | {"checkpoints": checkpoints})


async def answer_open(session: Session, message: Message) -> None:
    """Answers `open` with `opened`; starts the compilation of the default search."""
    await start_engine(session, message)
    network = await load_network(session, message)
    session.checkpoint = message.checkpoint
    about = describe_trained(network.trained, network.build)
    await session.answer(message, "opened", {"checkpoint": message.checkpoint} | about)


async def answer_position(session: Session, message: Message) -> None:
    """Answers `position`."""
    network, opened = await open_moves(session, message)
    about = await session.call(message, OPENING, describe_position, network.trained.env, opened)
    await session.answer(message, "position", about)


async def answer_exact(session: Session, message: Message) -> None:
    """Answers `exact`; the value is null if it is unknown."""
    network, opened = await open_moves(session, message)
    env, slow = network.trained.env, session.context.slow
    found = await session.call(message, SOLVING, find_exact, env, opened, executor=slow)
    unknown = {"source": games.exact_source(env), "value": None, "moves": {}}
    await session.answer(message, "exact", found or unknown)


async def answer_read(session: Session, message: Message) -> None:
    """Answers `read` with `record`, the first game of a text.

    Without a network in the message, the game is that of the network that the page opened last.
    """
    checkpoint = message.checkpoint or session.checkpoint
    network = await load_network(session, dataclasses.replace(message, checkpoint=checkpoint))
    counter = Counter()
    read = functools.partial(read_first, network.trained.env, message.text, counter)
    record = await session.call(
        message, READING, read, executor=session.context.slow, counter=counter
    )
    await session.answer(message, "record", record)


async def answer_write(session: Session, message: Message) -> None:
    """Answers `write` with `written`, the content of a file."""
    network, opened = await open_moves(session, message)
    written = await session.call(message, OPENING, _write, network.trained.env, opened, message)
    await session.answer(message, "written", written)


async def start_engine(session: Session, message: Message) -> Engine:
    """Returns the engine of a message's network; raises the errors of `load_network`."""
    start, executor = session.context.engines.engine, loading_executor(session, message)
    return await session.call(message, LOADING, start, message.checkpoint, executor=executor)


async def load_network(session: Session, message: Message) -> Network:
    """Returns the network of a message.

    Raises:
      UserError: if there is no such network, or it cannot be loaded.
    """
    load, executor = session.context.engines.network, loading_executor(session, message)
    return await session.call(message, LOADING, load, message.checkpoint, executor=executor)


def loading_executor(session: Session, message: Message) -> Executor:
    """Returns the executor for work with a network: `loading` until the network is ready."""
    context = session.context
    return context.quick if context.engines.is_ready(message.checkpoint) else context.loading


async def open_moves(session: Session, message: Message) -> tuple[Network, GamePosition]:
    """Returns the network and the position of a message.

    Raises:
      UserError: as `load_network`; or if a move or the FEN is wrong.
    """
    network = await load_network(session, message)
    env, moves = network.trained.env, message.moves
    opened = await session.call(message, OPENING, games.open_position, env, moves, message.fen)
    return network, opened


def read_first(env: Environment, text: str, counter: Counter) -> Row:
    """Returns the first game of a text, and the number of its games.

    Args:
      env: the game.
      text: the text.
      counter: is asked after each game whether to go on.

    Raises:
      UserError: if the first game is invalid or too long.
      Stopped: if the work was stopped.
    """
    count, records = 0, read_records(env, text)
    first = next(records)
    for count, _ in enumerate(itertools.chain([first], records), start=1):
        counter(count, 0)
    if len(first.moves) > MAX_MOVES:
        raise UserError(f"the game has {len(first.moves):,} moves; it may have {MAX_MOVES:,}")
    record = check_record(env, first, 1, count)
    about = {"count": count, "fen": record.fen, "headers": record.about or {}}
    return {"moves": list(record.texts)} | about


def _write(env: Environment, opened: GamePosition, message: Message) -> Row:
    headers = {"date": datetime.date.today().isoformat()} | message.headers
    if opened.is_over and "result" not in headers:
        headers["result"] = _RESULTS[result_of(env, opened)["winner"]]
    text = write_record(
        env, opened.actions, format=message.format, fen=message.fen, headers=headers
    )
    name = re.sub(r"[^A-Za-z0-9]+", "-", env.id).strip("-")
    return {"filename": f"{name}.{EXTENSIONS[message.format]}", "text": text}
