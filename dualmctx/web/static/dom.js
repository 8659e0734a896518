// Makes elements and controls. Text enters the document only as text, never as markup.
//
// make(tag, attributes, ...children) and makeSvg return an element; see elements.js of the viewer.

import { makeElement as make, makeSvg } from "/viewer/elements.js";

export { make, makeSvg };

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
