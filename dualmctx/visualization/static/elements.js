// Makes elements of the page. Text from a recording enters as text nodes or attributes only.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

// Makes an HTML element. A function is a listener: {onclick: f}. Children that are
// null or false are left out.
export function makeElement(tag, attributes = {}, ...children) {
  return fillElement(document.createElement(tag), attributes, children);
}

export function makeSvg(tag, attributes = {}, ...children) {
  return fillElement(document.createElementNS(SVG_NAMESPACE, tag), attributes, children);
}

function fillElement(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Sets an attribute only if it changes, because each write costs the browser a new layout.
export function setAttribute(element, name, value) {
  const text = String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Returns a text about the sides of a game for a page with discs: "black" for "x (black)".
export function withoutLetters(text) {
  return String(text).replace(/\b[xo] \(([^)]+)\)/g, "$1");
}

// Returns the name of a tree with the word "tree", which the only tree of a search is called already.
export function labelTree(name) {
  return /\btree\b/.test(name) ? name : `${name} tree`;
}

const NONE = "–";

// A value in [-1, 1] or a score, with a sign and three digits.
export function formatValue(value, digits = 3) {
  if (!isNumber(value)) return NONE;
  if (value === 0) return "0";
  const text = Math.abs(value).toFixed(digits);
  // A value that rounds to zero has no sign.
  if (Number(text) === 0) return text;
  return (value < 0 ? "−" : "+") + text;
}

// The same for the boxes of a tree, with two digits.
export function formatShort(value) {
  return formatValue(value, 2);
}

// An exact value, without the digits of a whole number.
export function formatExact(value) {
  return Number.isInteger(value) ? formatValue(value, 0) : formatValue(value);
}

// A probability with three digits.
export function formatShare(value) {
  return isNumber(value) ? value.toFixed(3) : NONE;
}

// A count; fractions (virtual or weighted visits) have two digits.
export function formatCount(value) {
  if (!isNumber(value)) return NONE;
  return Number.isInteger(value) ? String(value) : value.toFixed(2);
}

export function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

// A rounded number. The attributes hold the full one: `data-value`, `title`, and `data-field`, its name.
export function makeNumber(value, format, field, tag = "span") {
  const full = value === null || value === undefined ? "" : String(value);
  const attributes = { class: "dv-number", "data-value": full, "data-field": field, title: full || false };
  return makeElement(tag, attributes, format(value));
}

const TEXT_COLUMNS = new Set(["", "bar", "move", "node", "rank", "tree", "window"]);

// A table with a caption for screen readers. A header is a text, or [text, help].
export function makeTable(caption, headers, rows) {
  const cells = headers.map((header) => {
    const [text, help] = Array.isArray(header) ? header : [header, false];
    return makeElement("th", { scope: "col", title: help, class: TEXT_COLUMNS.has(text) && "dv-text" }, text);
  });
  return makeElement("div", { class: "dv-scroll", tabindex: "0", role: "group", "aria-label": caption },
    makeElement("table", {},
      makeElement("caption", {}, caption),
      makeElement("thead", {}, makeElement("tr", {}, ...cells)),
      makeElement("tbody", {}, ...rows)));
}
