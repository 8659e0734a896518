// Makes elements and controls. Text enters the document only as text, never as markup.

// Makes an HTML element. A function is a listener: {onclick: f}. Attributes and children that are
// null, undefined or false are left out; arrays of children are flattened.
export function make(tag, attributes = {}, ...children) {
  return fillElement(document.createElement(tag), attributes, children);
}

export function makeSvg(tag, attributes = {}, ...children) {
  return fillElement(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

const isPresent = (value) => value !== null && value !== undefined && value !== false;

function fillElement(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (isPresent(value)) element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter(isPresent));
  return element;
}

// Returns a button that does not submit a form.
export function makeButton(text, onclick, attributes = {}) {
  return make("button", { type: "button", onclick, ...attributes }, text);
}

// Returns a button with a symbol. The label is for screen readers and for the pointer.
export function makeIcon(symbol, label, onclick, attributes = {}) {
  return makeButton(symbol, onclick, { "aria-label": label, title: label, ...attributes });
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

// Sets an attribute only if it changes, because each write costs the browser a new layout.
export function setAttribute(element, name, value) {
  const text = String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Calls `keys[event.key]()` for keys without Ctrl and the like, unless `isUsed(event)` says that the element
// with the focus uses the key. Returns a function that ends it.
export function listenToKeys(keys, isUsed) {
  const listener = (event) => {
    const isOther = event.ctrlKey || event.altKey || event.metaKey || event.shiftKey || event.defaultPrevented;
    if (isOther || !Object.hasOwn(keys, event.key) || isUsed(event)) return;
    event.preventDefault();
    keys[event.key]();
  };
  document.addEventListener("keydown", listener);
  return () => document.removeEventListener("keydown", listener);
}

// Offers a text as a file to save.
export function saveFile(filename, text, type = "text/plain") {
  const address = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: address, download: filename }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
