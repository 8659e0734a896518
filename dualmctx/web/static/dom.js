// Makes elements. Text enters the document only as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

// Returns an element of HTML.
//
// attributes: names and values; a function under "onclick" and the like is a listener, true gives
//   an attribute without a value, and false, null and undefined give none.
// children: elements or text; null and false are left out.
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// Returns an element of SVG; arguments as for `make`.
export function makeSvg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) setAttribute(element, name, value);
  element.append(...children.flat().filter((child) => child !== null && child !== false));
  return element;
}

export function setAttribute(element, name, value) {
  if (typeof value === "function") element.addEventListener(name.slice(2), value);
  else if (value === false || value === null || value === undefined) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : value);
}

// Returns a button that does not submit a form.
export function makeButton(text, onclick, attributes = {}) {
  return make("button", { type: "button", onclick, ...attributes }, text);
}

// Returns a label with a control inside.
export function makeField(text, control, attributes = {}) {
  return make("label", { class: "field", ...attributes }, make("span", {}, text), control);
}

// Replaces the options of a select; `options` are pairs of a value and a text.
export function setOptions(select, options, value) {
  select.replaceChildren(...options.map(([key, text]) => make("option", { value: key }, text)));
  select.value = value;
}

// Offers a text as a file to save.
export function saveFile(filename, text, type = "text/plain") {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = make("a", { href: address, download: filename });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
