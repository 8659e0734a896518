// Places the nodes of the final tree from left to right, so that a node never moves while one steps.

const ROW_HEIGHT = 27;
const COLUMN_GAP = 30;
export const BOX_HEIGHT = 20;
const OPENED_AT_ONCE = 40;
const LONGEST_NAME = 11;

// Chooses the nodes that are drawn: those with the most final visits, their ancestors, and the opened ones.
export function chooseNodes(replay, limit, opened) {
  const { recording: { nodes }, finalVisits } = replay;
  const shown = new Set([0]);
  const add = (index) => {
    for (let node = index; node >= 0 && !shown.has(node); node = nodes[node].parent) shown.add(node);
  };
  const rank = (indices) => indices.sort((a, b) => finalVisits[b] - finalVisits[a] || a - b);
  for (const index of rank([...nodes.keys()])) {
    if (shown.size >= limit) break;
    add(index);
  }
  // In the order in which they were opened, because an opened node may lie below another one.
  for (const parent of opened) {
    add(parent);
    rank(replay.children[parent].filter((child) => !shown.has(child))).slice(0, OPENED_AT_ONCE).forEach(add);
  }
  return shown;
}

// Returns {items, byKey, visitsEnd, valueEnd, boxWidth, width, height}. An item is a node, or a
// summary of the children of a node that are not shown: `hidden` are these, `below` these and all below them.
export function makeLayout(replay, shown) {
  const layout = { items: [], byKey: new Map(), ...measureColumns(replay, shown), height: 0, width: 0 };
  let row = 0;
  // Post-order without recursion: a search may be hundreds of moves deep.
  const stack = [{ item: makeNodeItem(replay, 0), queue: null, rows: [] }];
  while (stack.length) {
    const top = stack.at(-1);
    top.queue ??= listChildItems(replay, shown, top.item);
    if (top.queue.length) {
      stack.push({ item: top.queue.shift(), queue: null, rows: [] });
      continue;
    }
    stack.pop();
    const middle = top.rows.length ? (top.rows[0] + top.rows.at(-1)) / 2 : row++;
    stack.at(-1)?.rows.push(middle);
    top.item.x = top.item.depth * (layout.boxWidth + COLUMN_GAP);
    top.item.y = middle * ROW_HEIGHT;
    layout.items.push(top.item);
    layout.byKey.set(top.item.key, top.item);
    layout.width = Math.max(layout.width, top.item.x + layout.boxWidth);
  }
  layout.height = row * ROW_HEIGHT;
  return layout;
}

function makeNodeItem(replay, index) {
  const { parent, depth } = replay.recording.nodes[index];
  return { key: `n${index}`, node: index, parent, depth, isSummary: false, hidden: [], below: [] };
}

function listChildItems(replay, shown, item) {
  if (item.isSummary) return [];
  const children = replay.children[item.node];
  const items = children.filter((child) => shown.has(child)).map((child) => makeNodeItem(replay, child));
  const hidden = children.filter((child) => !shown.has(child));
  if (!hidden.length) return items;
  const below = [...hidden];
  for (let i = 0; i < below.length; i++) below.push(...replay.children[below[i]]);
  return [...items, { key: `s${item.node}`, node: -1, parent: item.node, depth: item.depth + 1, isSummary: true, hidden, below }];
}

// The widths of the parts of a box, from the longest name and the largest count.
function measureColumns({ recording: { nodes }, finalVisits }, shown) {
  const nameEnd = 24 + 7 * Math.max(3, ...[...shown].map((index) => shortName(nodes[index]).length));
  const visitsEnd = nameEnd + 8 + 7 * Math.max(2, String(Math.max(...finalVisits)).length);
  const hasExact = nodes.some((node) => (node.exact ?? null) !== null);
  return { visitsEnd, valueEnd: visitsEnd + 48, boxWidth: visitsEnd + 48 + (hasExact ? 34 : 6) };
}

// The move into a node as drawn in its box, with a mark at the end of the game.
export function shortName(node) {
  if (node.parent < 0) return "root";
  const letters = [...(node.move ?? String(node.action))];
  const name = letters.length > LONGEST_NAME ? `${letters.slice(0, LONGEST_NAME - 1).join("")}…` : letters.join("");
  return node.is_terminal ? `${name} ■` : name;
}

// The item that shows a node: its box, or the summary that it is hidden in.
export function itemOfNode(replay, layout, index) {
  for (let node = index; node >= 0; node = replay.recording.nodes[node].parent) {
    const item = layout.byKey.get(`n${node}`);
    if (item) return node === index ? item : layout.byKey.get(`s${node}`) ?? item;
  }
  return null;
}
