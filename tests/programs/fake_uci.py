"""A program that speaks UCI: plays a rook pawn of Gardner's chess forward.

Arguments: a file to which the lines are appended, and a fault: none, crash, null or hang. The fault
occurs at the second move of a game.
"""

import sys
import time

log, fault = sys.argv[1:]
number = 0
ANSWERS = {"none": "a2a3", "null": "(none)"}
for line in sys.stdin:
    with open(log, "a") as file:
        file.write(line)
    words = line.split()
    if words[0] == "uci":
        print("id name Fake 1.0")
        print("option name Skill Level type spin default 20 min 0 max 20")
        print("option name UCI_Variant type combo default chess var chess var gardner")
        print("uciok", flush=True)
    elif words[0] == "isready":
        print("readyok", flush=True)
    elif words[0] == "ucinewgame":
        number = 0
    elif words[0] == "go":
        number += 1
        if number == 2 and fault == "crash":
            sys.exit(3)
        if number == 2 and fault == "hang":
            time.sleep(600)
        print("info depth 1 pv b2b3")
        print(f"bestmove {'b2b3' if number == 1 else ANSWERS[fault]} ponder a1a1", flush=True)
