"""Drawings of search trees: the numbers are those of the arrays, in each format and variant."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jax
import numpy as np
import pytest

from dualmctx.search.slots import played_actions
from dualmctx.visualization import Drawing, draw_tree
from dualmctx.visualization.search_tree import read_tree
from hash_model import Rules
from oracle import cases
from oracle.compare import run_engine

SVG = "{http://www.w3.org/2000/svg}"
SEEDS, A = (0, 3), 6


@pytest.fixture(scope="module")
def tree() -> Any:
    """Two trees with a window, and nodes with few action slots."""
    policy = cases.with_options(cases.DUAL_WINDOWED, max_children=3)
    key = jax.random.key(5)
    output = run_engine(policy, A, Rules(terminal=0.1, illegal=0.3), SEEDS, key, final="all")
    return jax.tree.map(jax.numpy.asarray, output).search_tree


def numbers(tree: Any, index: int) -> list[dict[str, Any]]:
    """Returns the nodes of an element, read from the arrays by another way than the package."""
    actions = np.asarray(played_actions(tree))
    found = []
    for n in range(tree.num_nodes):
        parent = int(tree.parents[index, n])
        if n and parent < 0:
            continue
        slot = int(tree.action_from_parent[index, n])
        visits = [int(x.node_visits[index, n]) for x in tree.stats]
        edges = [(x.children_visits[index, parent], x.children_qvalues) for x in tree.stats]
        found.append(
            {
                "index": n,
                "parent": parent,
                "action": int(actions[index, n]),
                "prior": float(tree.children_prior[index, parent, slot]) if n else None,
                "is_terminal": bool(tree.discounts[index, n] == 0),
                "raw_value": float(tree.raw_values[index, n]),
                "visits": visits,
                "passes": [
                    int((x.node_visits if x.path_visits is None else x.path_visits)[index, n])
                    for x in tree.stats
                ],
                "values": [
                    float(x.node_values[index, n]) if v else None
                    for x, v in zip(tree.stats, visits, strict=True)
                ],
                "qvalues": [
                    float(q[index, parent, slot]) if n and v[slot] else None for v, q in edges
                ],
            }
        )
    return found


@pytest.mark.slow
@pytest.mark.parametrize("index", range(len(SEEDS)))
def test_nodes_have_the_numbers_of_the_arrays(tree: Any, index: int) -> None:
    read, expected = read_tree(tree, index), numbers(tree, index)
    assert len(expected) > 10
    nodes = [node._asdict() for node in read.nodes.values()]
    known = [{name: node[name] for name in expected[0]} for node in nodes]
    assert json.loads(json.dumps(known)) == expected
    assert read.names == ("small", "large")


def groups(drawing: Drawing) -> dict[str, Any]:
    """Returns the groups of the boxes in the SVG by their names."""
    root = ElementTree.fromstring(drawing.to_svg())
    return {
        group.attrib["id"]: group
        for group in root.iter(f"{SVG}g")
        if group.attrib.get("class", "").startswith("node ")
    }


def lines(group: Any) -> list[str]:
    return [x.text for x in group.iter(f"{SVG}text") if x.get("class") == "line"]


@pytest.mark.slow
def test_svg_has_the_numbers_of_the_arrays(tree: Any) -> None:
    drawn = groups(draw_tree(tree, max_nodes=1000))
    nodes = {f"n{node['index']}": node for node in numbers(tree, 0)}
    assert drawn.keys() == nodes.keys()
    for name, node in nodes.items():
        texts = lines(drawn[name])
        shown = node["qvalues"] if node["parent"] >= 0 else node["values"]
        for i, tree_name in enumerate(("small", "large")):
            row = texts[i].split()
            assert row[0] == tree_name
            if node["visits"][i]:
                assert int(row[1]) == node["visits"][i]
                assert float(row[2]) == pytest.approx(shown[i], abs=0.00501)
            else:
                assert row[1] == "–"
        assert ("game over" in texts) == node["is_terminal"]
        # A border, not only a colour, tells which nodes one of the trees lacks.
        assert ("partial" in drawn[name].attrib["class"]) == (0 in node["visits"])
        assert ("large –" in texts) == (node["visits"][1] == 0)
        title = drawn[name].find(f"{SVG}title").text
        for q in node["qvalues"]:
            assert q is None or f"Q {q}" in title


def test_dot_has_the_same_texts_as_svg(tree: Any) -> None:
    drawing = draw_tree(tree, max_nodes=12)
    dot = drawing.to_dot()
    boxes = dict(re.findall(r'^  (\w+) \[label="(.*?)", tooltip', dot, flags=re.MULTILINE))
    drawn = groups(drawing)
    assert {name: text.split("\\n") for name, text in boxes.items()} == {
        name: lines(group) for name, group in drawn.items()
    }
    edges = re.findall(r'^  (\w+) -> (\w+) \[label="(.*?)"', dot, flags=re.MULTILINE)
    assert len(edges) == len(boxes) - 1
    nodes = {f"n{node['index']}": node for node in numbers(tree, 0)}
    for parent, child, label in edges:
        if child.startswith("n"):
            assert parent == f"n{nodes[child]['parent']}"
            assert label == f"{nodes[child]['action']}\\nP {nodes[child]['prior']:.2f}"
        else:
            assert child == parent.replace("n", "more")


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz")
def test_graphviz_reads_dot(tree: Any, tmp_path: Path) -> None:
    file = tmp_path / "tree.dot"
    draw_tree(tree, title='a "title" \\ with \n lines').save(file)
    done = subprocess.run(["dot", "-Tsvg", file], capture_output=True, text=True, check=True)
    assert "<svg" in done.stdout
    assert done.stderr == ""


def test_pruning_keeps_the_most_visited_nodes_and_counts_the_others(tree: Any) -> None:
    everything = {node["index"]: node for node in numbers(tree, 0)}
    drawing = draw_tree(tree, max_nodes=6)
    shown = [int(x.name[1:]) for x in drawing.boxes if x.style != "summary"]
    assert len(shown) == 6
    assert all(everything[i]["parent"] in (-1, *shown) for i in shown)
    # No hidden node whose parent is shown was passed more often than a shown leaf.
    passes = {node["index"]: sum(node["passes"]) for node in everything.values()}
    hidden = [node for i, node in everything.items() if i not in shown]
    candidates = [passes[n["index"]] for n in hidden if n["parent"] in shown]
    leaves = [i for i in shown if not any(everything[j]["parent"] == i for j in shown)]
    assert max(candidates) <= min(passes[i] for i in leaves)
    found = [x.lines for x in drawing.boxes if x.style == "summary"]
    assert sum(int(re.findall(r"\d+", nodes)[0]) for nodes, _ in found) == len(hidden)
    counts = [[int(x) for x in text.split()[0].split("/")] for _, text in found]
    direct = [n["visits"] for n in hidden if n["parent"] in shown]
    assert np.sum(counts, axis=0).tolist() == np.sum(direct, axis=0).tolist()
    boxes = draw_tree(tree, max_nodes=100, max_depth=1).boxes
    assert {box.parent for box in boxes if box.style != "summary"} == {-1, 0}
    assert any(box.style == "summary" for box in boxes)
