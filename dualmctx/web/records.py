"""Answers to the messages that read and write records of games."""

import dataclasses
import datetime
import functools
import itertools
import re

from dualmctx.errors import UserError
from dualmctx.evaluation.records import EXTENSIONS, check_record, read_records, write_record
from dualmctx.types import Environment
from dualmctx.web.counter import Counter
from dualmctx.web.handlers import OPENING, load_network, open_moves
from dualmctx.web.limits import MAX_MOVES
from dualmctx.web.positions import result_of
from dualmctx.web.protocol import Message, Row
from dualmctx.web.session import Session
from games import GamePosition

READING = "reading the record"
_RESULTS = {0: "1-0", 1: "0-1", None: "1/2-1/2"}


async def answer_read(session: Session, message: Message) -> None:
    """Answers `read` with `record`, the first game of a text.

    Without a network in the message, the game is that of the network that the page opened last.
    """
    checkpoint = message.checkpoint or session.checkpoint
    message = dataclasses.replace(message, checkpoint=checkpoint)
    network = await load_network(session, message)
    env, counter = network.trained.env, Counter()
    read = functools.partial(read_first, env, message.text, counter)
    record = await session.call(
        message, READING, read, executor=session.context.slow, counter=counter
    )
    await session.send({"type": "record", "id": message.id} | record)


async def answer_write(session: Session, message: Message) -> None:
    """Answers `write` with `written`, the content of a file."""
    network = await load_network(session, message)
    opened = await open_moves(session, message, network)
    written = await session.call(message, OPENING, _write, network.trained.env, opened, message)
    await session.send({"type": "written", "id": message.id} | written)


def read_first(env: Environment, text: str, counter: Counter) -> Row:
    """Returns the first game of a text, and the number of its games.

    Args:
      env: the game.
      text: the text.
      counter: is asked after each game whether to go on.

    Raises:
      ValueError: if the first game is invalid or too long.
      Stopped: if the work was stopped.
    """
    count, records = 0, read_records(env, text)
    first = next(records)
    for count, _ in enumerate(itertools.chain([first], records), start=1):
        counter(count, 0)
    if len(first.moves) > MAX_MOVES:
        raise UserError(f"the game has {len(first.moves):,} moves; it may have {MAX_MOVES:,}")
    record = check_record(env, first, 1, count)
    return {
        "game_number": 1,
        "count": count,
        "moves": list(record.texts),
        "fen": record.fen,
        "headers": record.about or {},
    }


def _write(env: Environment, opened: GamePosition, message: Message) -> Row:
    headers = {"date": datetime.date.today().isoformat()} | message.headers
    if opened.is_over and "result" not in headers:
        headers["result"] = _RESULTS[result_of(env, opened)["winner"]]
    text = write_record(
        env, opened.actions, format=message.format, fen=message.fen, headers=headers
    )
    name = re.sub(r"[^A-Za-z0-9]+", "-", env.id).strip("-")
    return {"filename": f"{name}.{EXTENSIONS[message.format]}", "text": text}
