"""`dualmctx play` as a command: messages, access, and the end of the server."""

import importlib.util
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from dualmctx.commands import play
from dualmctx.errors import UserError
from dualmctx.serving.tasks import can_deepen, total_simulations
from refusals import refused
from socket_client import open_client

ROOT = Path(__file__).parents[2]


def test_port_in_use_is_one_message(capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        message = refused(["play", "hsr", "--port", str(port), "--no-browser"], capsys)
    assert f"cannot listen at 127.0.0.1, port {port}: " in message
    assert "choose another --port" in message


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nosuch"], "nosuch is neither a run's folder"),
        (["--port", "70000"], "port is 70000; it must be from 0 to 65535"),
        (["--batch", "0"], "batch is 0; it must be at least 1"),
        (["--host", "no.such.host.invalid"], "cannot listen at no.such.host.invalid"),
        (["--simulations", "5000"], "the search has 5000 simulations"),
    ],
)
def test_invalid_flags_are_one_message(capsys, arguments, reason):
    assert reason in refused(["play", "--no-browser", "--port", "0", *arguments], capsys)


def test_missing_extra_is_one_message(capsys, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "uvicorn" else find(name)
    )
    message = 'uvicorn is missing: pip install "dualmctx[web]"'
    assert message in refused(["play", "hsr"], capsys)


def test_default_search_deepens():
    network = play.load_network(play.Options(), "connect-four")
    own, default = network.build("own"), network.build(None)
    assert not can_deepen(own)
    assert can_deepen(default)
    assert total_simulations(default) == total_simulations(own)
    chosen = play.load_network(play.Options(variant="gumbel"), "connect-four").build(None)
    assert type(chosen) is type(own)
    # The numbers are for the trees of another network.
    options = play.Options(("tic-tac-toe",), simulations=(5, 3))
    assert play.load_network(options, "connect-four").build(None) == default
    assert total_simulations(play.load_network(options, "tic-tac-toe").build(None)) == 8
    network = play.load_network(play.Options(variant="own:c_puct=3"), "connect-four")
    with pytest.raises(UserError, match="own has no option c_puct"):
        network.build(None)


def test_browser_needs_a_display(monkeypatch):
    monkeypatch.setattr(play.sys, "platform", "linux")
    monkeypatch.setattr(play.os, "environ", {})
    assert not play.has_display()
    monkeypatch.setattr(play.os, "environ", {"WAYLAND_DISPLAY": "wayland-0"})
    assert play.has_display()


@pytest.mark.slow
def test_signal_ends_the_server():
    """On an address that other machines reach, the page and the socket need the token."""
    command = [sys.executable, "-m", "dualmctx", "play", "hsr", "--no-browser", "--port", "0"]
    with subprocess.Popen(
        [*command, "--host", "0.0.0.0", "--variant", "alphazero"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            line = process.stderr.readline()
            [port, token] = re.search(r":(\d+)/\?token=(\S+) ", line).groups()
            address = f"http://127.0.0.1:{port}/"
            for wrong in ("", "?token=", f"?token={token}x"):
                with pytest.raises(urllib.error.HTTPError, match="403"):
                    urllib.request.urlopen(address + wrong, timeout=60)
                refused = open_client(address, wrong)
                with pytest.raises(InvalidStatus, match="403"), refused:
                    pass
            with urllib.request.urlopen(f"{address}?token={token}", timeout=60) as page:
                assert page.status == 200
            with open_client(address, f"?token={token}") as client:
                assert client.ask("hello")["default"] == "hsr"
                client.send("analyse", checkpoint="hsr", simulations=2000)
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 130
            assert process.stderr.read() == "dualmctx play: stopped\n"
        finally:
            process.kill()
