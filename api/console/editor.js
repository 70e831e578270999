// A field for SQL: a textarea over its own coloured text, with completion. A textarea keeps what
// browsers and screen readers know about editing.

import { completions } from "./completion.js";
import { fill, h } from "./dom.js";
import { statementAt, tokens } from "./tokens.js";

const COLOURED = 50_000;

/** `onrun` and `onexplain` are called for their keys; `catalog` gives the catalog for completion. */
export function sqlEditor({ text, catalog, onrun, onexplain, onescape, onchange }) {
  const list = h("ul", { class: "completions", role: "listbox", id: "completions", "aria-label": "Names", hidden: true });
  const colours = h("pre", { class: "colours", "aria-hidden": "true" });
  const field = h("textarea", {
    id: "sql", spellcheck: "false", autocapitalize: "off", autocomplete: "off", rows: 8,
    "aria-label": "SQL", "aria-autocomplete": "list", "aria-controls": "completions",
  });
  const popup = { items: [], start: 0, at: 0, chosen: false };
  field.value = text;

  const paint = () => {
    const all = field.value.length > COLOURED ? [{ kind: "space", text: field.value }] : tokens(field.value);
    fill(colours, all.map(({ kind, text: part }) => (kind === "space" || kind === "word" || kind === "sign" ? part : h("span", { class: kind }, part))), "\n");
    scroll();
  };
  const scroll = () => { colours.scrollTop = field.scrollTop; colours.scrollLeft = field.scrollLeft; };

  const close = () => {
    popup.items = [];
    list.hidden = true;
    field.removeAttribute("aria-activedescendant");
  };
  const open = (explicitly) => {
    const found = completions(field.value, field.selectionStart, catalog());
    const typed = field.selectionStart - found.start;
    if (!found.items.length || (!explicitly && typed < 2)) { close(); return; }
    Object.assign(popup, { ...found, at: 0, chosen: explicitly });
    place();
    draw();
  };
  const place = () => {
    const box = caretBox(colours, field.value, popup.start);
    list.style.left = `${Math.max(0, box.left)}px`;
    list.style.top = `${box.bottom + 2}px`;
  };
  const draw = () => {
    fill(list, popup.items.map(({ text: t, detail }, i) => h("li", {
      role: "option", id: `completion-${i}`, "aria-selected": String(i === popup.at),
      onmousedown: (event) => { event.preventDefault(); popup.at = i; accept(); },
    }, h("span", {}, t), h("span", { class: "detail" }, detail))));
    list.hidden = false;
    field.setAttribute("aria-activedescendant", `completion-${popup.at}`);
    list.children[popup.at].scrollIntoView({ block: "nearest" });
  };
  const accept = () => {
    field.setRangeText(popup.items[popup.at].text, popup.start, field.selectionStart, "end");
    close();
    changed();
  };
  const changed = () => { paint(); onchange(field.value); };

  const withPopup = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      popup.at = (popup.at + step + popup.items.length) % popup.items.length;
      popup.chosen = true;
      draw();
    } else if (event.key === "Tab" || (event.key === "Enter" && popup.chosen)) accept();
    else if (event.key === "Escape") close();
    else return false;
    return true;
  };
  const onKey = (event) => {
    const control = event.ctrlKey || event.metaKey;
    if (control && event.key === "Enter") { close(); (event.shiftKey ? onexplain : onrun)(); }
    else if (control && event.key === " ") open(true);
    else if (popup.items.length && withPopup(event)) { /* done */ }
    else if (event.key === "Escape") onescape();
    else return;
    event.preventDefault();
  };
  field.addEventListener("keydown", onKey);
  field.addEventListener("input", () => { changed(); open(false); });
  field.addEventListener("scroll", scroll);
  field.addEventListener("blur", close);
  paint();
  return {
    element: h("div", { class: "editor" }, colours, field, list),
    get text() { return field.value; },
    set text(fresh) { field.value = fresh; changed(); },
    /** The selected text, or the statement at the cursor. */
    statement() {
      const chosen = field.value.slice(field.selectionStart, field.selectionEnd).trim();
      return chosen ? { sql: chosen.replace(/;\s*$/, ""), start: field.selectionStart } : statementAt(field.value, field.selectionStart);
    },
    focus() { field.focus(); },
  };
}

/** Where a position of the text is drawn, in pixels from the corner of the field. */
function caretBox(colours, text, position) {
  const range = document.createRange();
  let rest = position;
  const walker = document.createTreeWalker(colours, NodeFilter.SHOW_TEXT);
  while (walker.nextNode() && rest > walker.currentNode.length) rest -= walker.currentNode.length;
  range.setStart(walker.currentNode ?? colours, walker.currentNode ? rest : 0);
  const outer = colours.getBoundingClientRect();
  const inner = range.getBoundingClientRect();
  const bottom = inner.bottom || outer.top + 28;
  return { left: (inner.left || outer.left) - outer.left, bottom: bottom - outer.top };
}
