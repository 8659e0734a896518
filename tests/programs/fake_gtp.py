"""A program that speaks GTP: plays the first free cell of tic-tac-toe, or passes in Go.

Arguments: a file to which the commands are appended, and a fault: none, crash, illegal, nonsense,
hang, refuse, mute, resign, no-komi, no-pass or random. The fault occurs at the second move; with
mute, the program refuses every move, with no-komi, the komi; with no-pass, it refuses `play` with a
pass, and plays A1.
"""

import random
import sys
import time

log, fault, *seed = sys.argv[1:]
rng = random.Random(seed[0] if seed else 0)
taken, is_go, number = [], False, 0
print("a line before the first answer")
for line in sys.stdin:
    with open(log, "a") as file:
        file.write(line)
    words, answer = line.split(), ""
    if words[0] == "clear_board":
        taken, number = [], 0
    elif words[0] == "komi":
        is_go = True
    elif words[0] == "play":
        taken.append(words[2])
    elif words[0] == "genmove":
        number += 1
        free = [str(cell) for cell in range(1, 10) if str(cell) not in taken]
        answer = "PASS" if is_go else rng.choice(free) if fault == "random" else free[0]
        answer = "A1" if fault == "no-pass" else answer
        if number == 2 and fault == "crash":
            sys.exit(3)
        if number == 2 and fault == "hang":
            time.sleep(600)
        if number == 2 and fault in ("illegal", "nonsense", "resign"):
            answer = {"illegal": taken[0], "nonsense": "z9", "resign": "resign"}[fault]
        taken.append(answer)
    # Programs of games with one size may not know the size.
    is_refused = (fault == "refuse" and number == 2) or words == ["boardsize", "3"]
    is_refused |= fault == "no-pass" and words[-1] == "pass"
    is_refused |= (fault, words[0]) in (("mute", "genmove"), ("no-komi", "komi"))
    print("? not now\n" if is_refused else f"= {answer}\n", flush=True)
