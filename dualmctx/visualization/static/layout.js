// Places the nodes of the final tree from left to right, so that a node never moves while one steps.

const ROW_HEIGHT = 27;
const COLUMN_GAP = 30;
export const BOX_HEIGHT = 20;
const OPENED_AT_ONCE = 40;
const LONGEST_NAME = 11;

// Chooses the nodes that are drawn: those with the most final visits, their ancestors, and the opened ones.
export function chooseNodes(replay, limit, opened) {
  const { nodes } = replay.recording;
  const ranked = nodes.map((node) => node.index).sort((a, b) => rankOf(replay, b) - rankOf(replay, a) || a - b);
  const shown = new Set([0]);
  for (const index of ranked) {
    if (shown.size >= limit) break;
    addWithAncestors(nodes, shown, index);
  }
  // In the order in which they were opened, because an opened node may lie below another one.
  for (const parent of opened) openSummary(replay, shown, parent);
  return shown;
}

function rankOf(replay, index) {
  return replay.finalVisits[index];
}

function addWithAncestors(nodes, shown, index) {
  for (let node = index; node >= 0 && !shown.has(node); node = nodes[node].parent) shown.add(node);
}

function openSummary(replay, shown, parent) {
  const hidden = replay.children[parent].filter((child) => !shown.has(child));
  hidden.sort((a, b) => rankOf(replay, b) - rankOf(replay, a));
  addWithAncestors(replay.recording.nodes, shown, parent);
  for (const child of hidden.slice(0, OPENED_AT_ONCE)) shown.add(child);
}

// Returns {items, byKey, columns, width, height, boxWidth}. An item is a node, or a summary of the
// children of a node that are not shown: `hidden` are these, `below` these and all below them.
export function makeLayout(replay, shown) {
  const columns = measureColumns(replay, shown);
  const layout = { items: [], byKey: new Map(), ...columns, height: 0, width: 0 };
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
    placeItem(layout, top.item, middle);
    stack.at(-1)?.rows.push(middle);
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
  if (hidden.length) {
    const below = collectBelow(replay, hidden);
    items.push({ key: `s${item.node}`, node: -1, parent: item.node, depth: item.depth + 1, isSummary: true, hidden, below });
  }
  return items;
}

function collectBelow(replay, roots) {
  const found = [...roots];
  for (let i = 0; i < found.length; i++) found.push(...replay.children[found[i]]);
  return found;
}

function placeItem(layout, item, row) {
  item.x = item.depth * (layout.boxWidth + COLUMN_GAP);
  item.y = row * ROW_HEIGHT;
  layout.items.push(item);
  layout.byKey.set(item.key, item);
  layout.width = Math.max(layout.width, item.x + layout.boxWidth);
}

// The widths of the parts of a box, from the longest name and the largest count.
function measureColumns(replay, shown) {
  const { nodes } = replay.recording;
  const names = [...shown].map((index) => shortName(nodes[index]).length);
  const digits = String(Math.max(...replay.finalVisits)).length;
  const hasExact = nodes.some((node) => node.exact !== null && node.exact !== undefined);
  const name = 24 + 7 * Math.max(3, ...names);
  const visits = name + 8 + 7 * Math.max(2, digits);
  const value = visits + 48;
  return { nameEnd: name, visitsEnd: visits, valueEnd: value, hasExact, boxWidth: value + (hasExact ? 34 : 6) };
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
