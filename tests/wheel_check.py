"""Builds the wheel, installs it into an empty environment, and uses it from another folder.

`make wheel-check` runs this: a tiny training run, an evaluation of a position with its network, an
export of it, a comparison with random play, a recorded search and the page of `dualmctx play`; then
the same with a game in the folder, and with a network in the folder.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLES = [ROOT / "examples" / name for name in ("domineering.py", "transformer.py")]
TINY = (
    "--network.width 4 --network.num-blocks 2 --network.trunk mlp --search.variant alphazero "
    "--search.num-simulations 4 --selfplay.num-games 8 --learner.num-updates 2 --evals.num-games 2 "
    "--num-iterations 2"
)
GAME = "domineering:Domineering"
OWN = f"--game {GAME} --game-parameters rows 3 columns 3"
COMMANDS = (
    "dualmctx --version",
    f"dualmctx train connect2 {TINY} --out run",
    "dualmctx evaluate run positions.jsonl --out results.jsonl",
    "dualmctx export run connect2.safetensors",
    "dualmctx export run connect2.stablehlo --search own",
    "dualmctx compare alphazero random --checkpoint connect2.safetensors --games 4 "
    "--opening-plies 1 --out comparison",
    "dualmctx tree connect2.safetensors --variant alphazero --simulations 4 --out tree.html",
    f"dualmctx train {OWN} {TINY} --out own",
    f"dualmctx evaluate own positions.jsonl --game {GAME} --out own.jsonl",
    f"dualmctx compare alphazero perfect --checkpoint own --game {GAME} --games 4 "
    "--opening-plies 1 --out own-comparison",
)
NETWORK = "--network transformer:make"
NETWORK_COMMANDS = (
    f"dualmctx train tic-tac-toe {NETWORK} --network.options width 4 num_blocks 2 "
    "attention_heads 1 --search.num-simulations 6 3 --search.num-rounds 3 --selfplay.num-games 8 "
    "--learner.num-updates 2 --evals.num-games 2 --num-iterations 1 --out net",
    f"dualmctx export net net.safetensors {NETWORK}",
    f"dualmctx evaluate net.safetensors positions.jsonl {NETWORK} --network-only --out net.jsonl",
)
FILES = (
    *("net/summary.json", "net.safetensors", "net.jsonl"),
    *("run/summary.json", "results.jsonl", "connect2.safetensors", "comparison/report.html"),
    *("connect2.stablehlo", "tree.html"),
    *("own/summary.json", "own.jsonl", "own-comparison/report.html"),
)


def run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    print(f"$ {shlex.join(command)}", flush=True)
    start = time.perf_counter()
    subprocess.run(command, cwd=folder, env=environment, check=True)
    print(f"({time.perf_counter() - start:.0f} s)", flush=True)


def check_page(play: Path, folder: Path, environment: dict[str, str]) -> None:
    """Starts the server of `dualmctx play`, and reads its page and the files of the viewer."""
    command = [str(play), "play", "connect2.safetensors", "--port", "0", "--no-browser"]
    print(f"$ {shlex.join(command)}", flush=True)
    with subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        try:
            addresses = (re.search(r"http://\S+", line) for line in server.stderr)
            address = next(found[0] for found in addresses if found)
            for path in ("", "app.js", "viewer/viewer.js", "shared/dom.js"):
                with urllib.request.urlopen(f"{address}{path}", timeout=30) as answer:
                    assert answer.read(), path
        finally:
            server.terminate()


def main() -> int:
    constraints = str(ROOT / "constraints.txt")
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    clean |= {"PIP_CONSTRAINT": constraints, "PIP_BUILD_CONSTRAINT": constraints}
    clean |= {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_backend_optimization_level=0"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pip = [sys.executable, "-m", "pip"]
        run([*pip, "wheel", "-q", "--no-deps", "-w", "dist", str(ROOT)], folder, clean)
        [wheel] = (folder / "dist").glob("*.whl")
        # pip of this environment installs there, so that the other one needs none.
        venv.create(folder / "venv")
        python = folder / "venv" / "bin" / "python"
        run([*pip, "--python", str(python), "install", "-q", f"{wheel}[web]"], folder, clean)
        work = folder / "work"
        work.mkdir()
        for example in EXAMPLES:
            shutil.copy(example, work)
        (work / "positions.jsonl").write_text('{"id": "start", "moves": []}\n')
        for command in (*COMMANDS, *NETWORK_COMMANDS):
            program, *arguments = shlex.split(command)
            run([str(python.with_name(program)), *arguments], work, clean)
        check_page(python.with_name("dualmctx"), work, clean)
        missing = [file for file in FILES if not (work / file).exists()]
        assert not missing, f"not written: {', '.join(missing)}"
    return 0


if __name__ == "__main__":
    sys.exit(main())
