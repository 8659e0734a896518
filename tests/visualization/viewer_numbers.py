"""The numbers that the viewer of a recording must show, computed from the recording in Python."""

from typing import Any

from recorded import candidates_of

Numbers = dict[str, list[Any]]
"""Numbers in the order of the page, by `place|caption|ids|field`."""

# Every number of the page: its key, its full value and its rounded text.
READ = """() => {
  const found = {};
  const panels = [...document.querySelectorAll(".dv-tree-panel")];
  for (const element of document.querySelectorAll(".dv [data-value]")) {
    const names = [".dv-tree-panel", "tr", ".dv-node", "details[data-node]"];
    const [panel, row, box, details] = names.map((name) => element.closest(name));
    if (panel?.hidden || box?.classList.contains("dv-hidden")) continue;
    const place = panel ? `tree ${panels.indexOf(panel)}` : element.closest(".dv-panel").ariaLabel;
    const caption = element.closest("table")?.caption.textContent.split(";")[0] ?? "";
    const { tree, node, action } = row?.dataset ?? {};
    const ids = [details?.dataset.node, tree, node, action, box?.dataset.node];
    const id = ids.filter((part) => part !== undefined).join(" ");
    const key = [place, caption, id, element.dataset.field].join("|");
    (found[key] ??= []).push([element.dataset.value, element.textContent]);
  }
  return found;
}"""


class Expected:
    """The numbers of a recording at each position; position k is the state after k steps."""

    def __init__(self, recording: dict[str, Any]) -> None:
        self.recording = recording
        self.nodes, self.steps = recording["nodes"], recording["steps"]
        self.states = [self._start()]
        for step in self.steps:
            state = {key: dict(rows) for key, rows in self.states[-1].items()}
            for change in step["changes"]:
                state[change["tree"]][change["node"]] = change["visits"][1], change["value"][1]
            self.states.append(state)

    def _start(self) -> dict[int, dict[int, tuple[float, float]]]:
        rows = enumerate(self.recording["root"]["trees"])
        return {tree: {0: (row["visits"], row["value"])} for tree, row in rows}

    def visits(self, position: int, tree: int, node: int) -> float:
        return self.states[position][tree].get(node, (0, 0.0))[0]

    def to_mover(self, node: int, value: float) -> float:
        """Returns a value of a node in the view of the player who made the move to it."""
        row = self.nodes[node]
        same = row["parent"] < 0 or self.nodes[row["parent"]]["side"] == row["side"]
        return value if same else -value

    def node_value(self, node: int, value: float) -> float:
        """Returns the value for the player to move; where the game is over, it is the result."""
        row = self.nodes[node]
        return self.to_mover(node, row["reward"]) if row["is_terminal"] else value

    def edge_value(self, node: int, value: float) -> float:
        """Returns Q of the edge into a node from the node's mean."""
        row = self.nodes[node]
        if row["is_terminal"]:
            return row["reward"]
        return row["reward"] + self.to_mover(node, value)

    def q(self, position: int, tree: int, node: int) -> float | None:
        visits, value = self.states[position][tree].get(node, (0, 0.0))
        return self.edge_value(node, value) if visits else None

    def line(self, node: int) -> str:
        """Returns the moves from the root to a node."""
        moves = []
        while self.nodes[node]["parent"] >= 0:
            moves.insert(0, self.nodes[node]["move"])
            node = self.nodes[node]["parent"]
        return " ".join(moves) or "root"

    def trees(self, position: int, created: int) -> Numbers:
        """Returns the numbers of the boxes of all trees."""
        found: Numbers = {}
        for tree in self.states[position]:
            for node in self.nodes:
                i = node["index"]
                if node["step"] >= position and i != created:
                    continue
                exact = None if node["exact"] is None else self.to_mover(i, node["exact"])
                numbers = self.visits(position, tree, i) or None, self.q(position, tree, i), exact
                for field, number in zip(("visits", "q", "exact"), numbers, strict=True):
                    found[f"tree {tree}||{i}|{field}"] = [number]
        return found

    def selection(self, choice: dict[str, Any]) -> Numbers:
        """Returns the numbers of the candidates of one choice."""
        found: Numbers = {}
        means = [x["q"] == x["addends"][0] for x in candidates_of(choice)]
        shows_mean = choice["parts"][0] != "Q" or not all(means)
        for row in candidates_of(choice):
            numbers = {name: row[name] for name in ("prior", "visits", "score")}
            numbers |= {f"addend-{i}": x for i, x in enumerate(row["addends"])}
            if shows_mean:
                numbers["q"] = row["q"]
            if "frozen_visits" in row:
                numbers["frozen-visits"] = row["frozen_visits"]
            title = f"this step|Candidates at {self.line(choice['node'])}|{row['action']}"
            found |= {f"{title}|{field}": [number] for field, number in numbers.items()}
        return found

    def evaluation(self, step: dict[str, Any]) -> Numbers:
        """Returns the numbers of the network's output, or the result of the game."""
        node, row = self.nodes[step["leaf"]["node"]], step["evaluation"]
        if row is None:
            return {"this step|||reward": [node["reward"]]}
        title = "this step|Prior of the moves"
        pairs = zip(node["legal"], row["prior"], strict=True)
        priors = {f"{title}|{action}|prior-0": [share] for action, share in pairs}
        return {"this step|||value": [row["value"]], **priors}

    def changes(self, step: dict[str, Any]) -> Numbers:
        """Returns the old and new numbers of a backup."""
        found: Numbers = {}
        for row in step["changes"]:
            node = row["node"]
            title = f"this step|Backup: old → new|{row['tree']} {node}"
            values = [self.node_value(node, value) for value in row["value"]]
            pairs = {"visits": row["visits"], "value": values}
            if node:
                pairs["q"] = [self.edge_value(node, value) for value in row["value"]]
            for field, (old, new) in pairs.items():
                found |= {f"{title}|{field}-old": [old], f"{title}|{field}-new": [new]}
        return found

    def frontier(self, step: dict[str, Any]) -> Numbers:
        title = "this step|Frontier, by passes"
        return {f"{title}|{x['node']}|passes": [x["passes"]] for x in step["candidates"]}

    def mixing(self, step: dict[str, Any]) -> Numbers:
        """Returns the values and priors before and after mixing."""
        found: Numbers = {}
        for row in step["nodes"]:
            i = row["node"]
            title = f"this step|Values before and after mixing|{i}"
            found[f"{title}|distance"] = [row["distance"]]
            for name in ("before", "head", "after"):
                found[f"{title}|{name}-value"] = [row[name]["value"]]
                pairs = zip(self.nodes[i]["legal"], row[name]["prior"], strict=True)
                for action, share in pairs:
                    key = f"this step|Priors at {self.line(i)}|{i} {action}|{name}-prior"
                    found[key] = [share]
        return found

    def outputs(self, node: int, seen: int) -> list[dict[str, Any]]:
        """Returns the outputs of the heads for a node in the first `seen` steps."""
        heads = self.recording["root"]["heads"] if node == 0 else []
        rows = [{"head": row} for row in heads]
        if self.nodes[node]["is_terminal"]:
            return []
        for step in self.steps[:seen]:
            if step["kind"] == "refinement":
                rows += [row for row in step["nodes"] if row["node"] == node]
            elif step["leaf"]["node"] == node and step["evaluation"]:
                rows.append({"head": step["evaluation"]})
        return rows

    def details(self, node: int, position: int, seen: int) -> Numbers:
        """Returns the numbers of the panel of the selected node."""
        found: Numbers = {}
        for tree, state in self.states[position].items():
            visits, value = state.get(node, (0, None))
            numbers = {
                "visits": visits,
                "value": self.node_value(node, value) if visits else None,
            }
            numbers["q"] = self.q(position, tree, node) if node else None
            title = f"selected node|Numbers of the node|{tree}"
            found |= {f"{title}|{field}": [number] for field, number in numbers.items()}
        row, place = self.nodes[node], "selected node||"
        if row["exact"] is not None:
            found[f"{place}|exact"] = [row["exact"]]
        if row["is_terminal"]:
            found[f"{place}|reward"] = [row["reward"]]
        outputs = self.outputs(node, seen)
        mixed = [x["after"] for x in outputs if "after" in x]
        for field, rows in (("head", [x["head"] for x in outputs]), ("mixed", mixed)):
            if rows:
                found[f"{place}|{field}-value"] = [x["value"] for x in rows]
        return found | self._priors(row, outputs)

    def _priors(self, node: dict[str, Any], outputs: list[dict[str, Any]]) -> Numbers:
        columns = [row for x in outputs for row in (x["head"], x.get("after")) if row]
        priors = [column["prior"] for column in columns]
        if node["parent"] < 0:
            root = self.recording["root"]
            priors.append(root["prior"])
            if root["noisy_prior"] != root["prior"]:
                priors.append(root["noisy_prior"])
        title = "selected node|Priors of the heads"
        return {
            f"{title}|{action}|prior-{i}": [prior[place]]
            for i, prior in enumerate(priors)
            for place, action in enumerate(node["legal"])
        }

    def cost(self, position: int) -> int:
        return self.steps[position - 1]["blocks"] if position else 0

    def standing(self, position: int, tree: int) -> Numbers:
        """Returns one row of the table of the most visited moves."""
        steps = [step for step in self.steps[:position] if step["tree"] == tree]
        counts = [1 if x["kind"] == "simulation" else len(x["nodes"]) for x in steps]
        children = [x["index"] for x in self.nodes if x["parent"] == 0]
        children.sort(key=lambda i: self.nodes[i]["action"])
        visits = {i: self.visits(position, tree, i) for i in children}
        title = "cost and moves|The most visited move of each tree so far"
        best = max(visits, key=lambda i: visits[i], default=None)
        if best is None or not visits[best]:
            return {f"{title}|{tree}|simulations": [sum(counts)]}
        title = f"{title}|{tree} {best}"
        return {
            f"{title}|simulations": [sum(counts)],
            f"{title}|share": [visits[best] / sum(visits.values())],
            f"{title}|q": [self.q(position, tree, best)],
        }

    def standings(self, position: int, other: "Expected | None") -> Numbers:
        """Returns the numbers of the panel with the cost and the moves."""
        result, place = self.recording["result"], "cost and moves||"
        found = {
            f"{place}|blocks": [self.cost(position)],
            f"{place}|blocks-total": [self.cost(len(self.steps))],
            f"{place}|result-value": [result["value"]],
        }
        weight = result["weights"][self.nodes[0]["legal"].index(result["action"])]
        found[f"{place}|result-weight"] = [weight]
        rows = [self.standing(position, tree) for tree in self.states[position]]
        if other is not None:
            spent = sum(x["blocks"] <= self.cost(position) for x in other.steps)
            rows.append(other.standing(spent, 0))
        for row in rows:
            for key, numbers in row.items():
                found[key] = found.get(key, []) + numbers
        return found

    def phases(self) -> list[tuple[int, str, int]]:
        """Returns all micro-steps: the step (-1 at the start), the phase and the level."""
        found = [(-1, "start", 0)]
        for number, step in enumerate(self.steps):
            if step["kind"] == "refinement":
                found += [(number, phase, 0) for phase in ("choose", "mix", "update")]
                continue
            found += [(number, "select", level) for level in range(len(step["path"]))]
            found += [(number, "evaluate", 0), (number, "backup", 0)]
        return found

    def page(self, number: int, phase: str, level: int, other: "Expected | None") -> Numbers:
        """Returns all numbers of the page at one micro-step."""
        is_done = phase in ("start", "backup", "update")
        position = number + is_done
        step = self.steps[number] if number >= 0 else {}
        created, active, content = -1, 0, {}
        if phase == "select":
            active = step["path"][level]["node"]
            content = self.selection(step["path"][level])
        elif phase in ("evaluate", "backup"):
            active = step["leaf"]["node"]
            is_new = phase == "evaluate" and step["leaf"]["is_new"]
            created = active if is_new else -1
            content = self.evaluation(step) if phase == "evaluate" else self.changes(step)
        elif phase != "start":
            active = step["nodes"][0]["node"] if step["nodes"] else 0
            makers = {"choose": self.frontier, "mix": self.mixing, "update": self.changes}
            content = makers[phase](step)
        seen = position + (phase in ("evaluate", "mix"))
        return {
            **self.trees(position, created),
            **content,
            **self.details(active, position, seen),
            **self.standings(position, other),
        }
