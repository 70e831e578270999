// Rows of a result. Only the rows in sight are elements, so that 100 000 rows scroll.

import { isNumeric, shownValue } from "./answer.js";
import { ask, fill, h } from "./dom.js";
import { count } from "./texts.js";

const ROW = 26, SPARE = 12, SAMPLE = 200, WIDEST = 48, NARROWEST = 4;

/** A grid for these columns; `add(rows)` appends rows. */
export function grid(columns) {
  const rows = [];
  const active = { row: 0, column: 0 };
  const body = h("div", { class: "body", role: "rowgroup" });
  const header = h("div", { class: "head", role: "rowgroup" },
    h("div", { class: "row", role: "row", "aria-rowindex": 1 },
      h("div", { class: "cell ordinal", role: "columnheader" }, h("span", { class: "hidden" }, "Row")),
      columns.map(({ name, type }) => h("div", { class: `cell ${isNumeric(type) ? "number" : ""}`, role: "columnheader", title: type },
        name, h("span", { class: "type" }, type.toLowerCase())))));
  const element = h("div", {
    class: "grid", role: "grid", tabindex: "0", "aria-label": "Result", "aria-rowcount": 1, "aria-colcount": columns.length + 1,
  }, header, body);

  let first = -1, last = -1, sized = 0;
  const draw = (force) => {
    const from = Math.max(0, Math.floor(element.scrollTop / ROW) - SPARE);
    const to = Math.min(rows.length, Math.ceil((element.scrollTop + element.clientHeight) / ROW) + SPARE);
    if (!force && from === first && to === last) return;
    first = from; last = to;
    fill(body, rows.slice(from, to).map((row, i) => line(from + i, row)));
  };
  const line = (index, row) => {
    const made = h("div", { class: "row", role: "row", "aria-rowindex": index + 2 },
      h("div", { class: "cell ordinal", role: "rowheader" }, count(index + 1)),
      row.map((value, c) => cell(index, c, value)));
    made.style.top = `${index * ROW}px`;
    return made;
  };
  const cell = (index, c, value) => {
    const chosen = index === active.row && c === active.column;
    const kind = `${isNumeric(columns[c].type) ? "number" : ""} ${value === null ? "null" : ""} ${chosen ? "active" : ""}`;
    return h("div", {
      class: `cell ${kind}`, role: "gridcell", id: chosen ? "active-cell" : null,
      onclick: () => { move(index, c); },
      ondblclick: () => show(),
    }, value === null ? "NULL" : shownValue(value));
  };
  const size = () => {
    const sample = rows.slice(0, SAMPLE);
    const widths = columns.map(({ name, type }, c) => {
      const longest = Math.max(name.length + type.length + 2, ...sample.map((row) => (row[c] === null ? 4 : shownValue(row[c]).length)));
      return `${Math.min(WIDEST, Math.max(NARROWEST, longest)) + 3}ch`;
    });
    element.style.setProperty("--columns", `7ch ${widths.join(" ")}`);
    sized = rows.length;
  };
  const move = (row, column) => {
    active.row = Math.max(0, Math.min(rows.length - 1, row));
    active.column = Math.max(0, Math.min(columns.length - 1, column));
    const top = active.row * ROW, height = element.clientHeight - header.offsetHeight - ROW;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top > element.scrollTop + height) element.scrollTop = top - height;
    draw(true);
    element.setAttribute("aria-activedescendant", "active-cell");
    document.getElementById("active-cell")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  const show = () => {
    const value = rows[active.row]?.[active.column];
    if (value === undefined) return;
    ask(columns[active.column].name, (close) => [
      value === null ? h("p", {}, "NULL") : h("pre", { class: "value", tabindex: "0" }, shownValue(value)),
      h("div", { class: "actions" }, h("button", { type: "button", class: "primary", onclick: () => close() }, "Close"))]).then(() => element.focus());
  };
  element.addEventListener("scroll", () => draw(false));
  element.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(element.clientHeight / ROW) - 2);
    const steps = {
      ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1], PageDown: [page, 0], PageUp: [-page, 0],
      Home: [0, -active.column], End: [0, columns.length],
    };
    if (event.key === "Enter") show();
    else if (event.ctrlKey && event.key === "Home") move(0, active.column);
    else if (event.ctrlKey && event.key === "End") move(rows.length, active.column);
    else if (event.key in steps && !event.ctrlKey) move(active.row + steps[event.key][0], active.column + steps[event.key][1]);
    else return;
    event.preventDefault();
  });
  new ResizeObserver(() => draw(true)).observe(element);
  size();
  return {
    element,
    add(more) {
      for (const row of more) rows.push(row);
      if (sized < SAMPLE) size();
      body.style.height = `${rows.length * ROW}px`;
      element.setAttribute("aria-rowcount", rows.length + 1);
      draw(true);
    },
    get length() { return rows.length; },
  };
}
