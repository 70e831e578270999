// Elements of pages. All texts become text nodes: nothing of the database is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes and children. `onclick` and the like are listeners; `true` is an
 * attribute without a value; false, null and undefined leave an attribute or child out. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, String(value));
  }
  element.append(...nodes(children));
  return element;
}

function nodes(children) {
  return children.flat(Infinity).filter((child) => child != null && child !== false);
}

/** Replace the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

/** A table. `columns` are {title, number}; a column of buttons has no title, and `rows` are lists of children of cells. */
export function table(caption, columns, rows) {
  const kind = (column) => (column.number ? "number" : null);
  return h(
    "div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {},
      h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", class: kind(c) }, c.title || h("span", { class: "hidden" }, "Action"))))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, i) => h("td", { class: kind(columns[i]) }, cell)))))),
  );
}

/** A text that says that there is nothing, and why. */
export const empty = (...text) => h("p", { class: "empty" }, ...text);

/** A problem of the server, with what to do about it. */
export function problem(error) {
  return h("div", { class: "problem", role: "alert" },
    h("p", {}, error.message),
    error.cure ? h("p", { class: "cure" }, error.cure) : null,
    error.code ? h("p", { class: "code" }, error.status ? `${error.code} (${error.status})` : error.code) : null);
}

let dialogs = 0;

/** A modal dialog. `build(close)` gives its children; the promise has the value given to `close`,
 * or undefined when the dialog is dismissed. */
export function ask(title, build) {
  return new Promise((resolve) => {
    const id = `dialog-${++dialogs}`;
    const dialog = h("dialog", { "aria-labelledby": id });
    const close = (value) => { dialog.remove(); resolve(value); };
    dialog.append(h("h2", { id }, title), ...nodes([build(close)]));
    dialog.addEventListener("close", () => close(undefined));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Ask for a confirmation; true if it is given. */
export function confirmed(title, text, action) {
  return ask(title, (close) => [
    h("p", {}, text),
    h("div", { class: "actions" },
      h("button", { type: "button", onclick: () => close(false) }, "Cancel"),
      h("button", { type: "button", class: "primary", onclick: () => close(true) }, action)),
  ]);
}

/** A page that looks again and again: `page` has `look`, which sets `timer`, an `element`, and `stop`. */
export function repeated(title, page) {
  page.look();
  return { title, element: page.element, close: () => { page.stop.abort(); clearTimeout(page.timer); } };
}
