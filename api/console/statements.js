// The page Statements, for administrators: what the node's statements cost, by their text.

import { confirmed, empty, fill, h, problem, repeated, table } from "./dom.js";
import { get, send } from "./rest.js";
import { count, duration, moment, plural } from "./texts.js";

const EVERY_MS = 5_000;
const SHOWN = 200;
const ORDERS = [["time", "time in all"], ["mean", "time of a call"], ["calls", "calls"], ["rows_read", "rows read"], ["failed", "errors"]];

export const statementsPage = () => repeated("Statements", new StatementsPage());

class StatementsPage {
  stop = new AbortController();
  timer = null;
  #found = null;
  #shown = "";

  constructor() {
    this.order = h("select", { id: "order", onchange: () => this.look() }, ORDERS.map(([value, text]) => h("option", { value }, text)));
    this.filter = h("input", { id: "filter", type: "search", spellcheck: "false", placeholder: "orders", oninput: () => this.#show() });
    this.reset = h("button", { type: "button", class: "danger", onclick: () => this.#reset() }, "Forget the counts");
    this.said = h("div", { role: "status" });
    this.list = h("div", {}, h("p", {}, "Asking the node …"));
    this.element = h("div", {}, h("h1", {}, "Statements"),
      h("div", { class: "toolbar" }, h("label", { for: "order" }, "Largest first by"), this.order, h("label", { for: "filter" }, "With the text"), this.filter,
        h("span", { class: "gap" }), h("a", { href: "#/plan?workload=statements" }, "Plan views for these reads"), this.reset),
      this.said, this.list);
  }

  async look() {
    const { signal } = this.stop;
    clearTimeout(this.timer);
    try {
      this.#found = await get(`v1/statements?order=${this.order.value}&limit=${SHOWN}`, { signal });
      this.#show();
    } catch (error) {
      if (error.name === "AbortError") return;
      this.#shown = "";
      this.reset.hidden = error.status === 403;
      fill(this.list, problem(error));
      if (error.status === 401 || error.status === 403) return;
    }
    if (!signal.aborted) this.timer = setTimeout(() => this.look(), EVERY_MS);
  }

  /** Show what was found, unless it is shown already: a selection and the focus stay. */
  #show() {
    if (this.#found === null) return;
    const wanted = this.filter.value.toLowerCase();
    const statements = this.#found.statements.filter(({ sql }) => sql.toLowerCase().includes(wanted));
    const shown = JSON.stringify([statements, this.#found.texts, this.#found.since_ms]);
    if (shown !== this.#shown) fill(this.list, statements.length ? this.#table(statements) : this.#nothing());
    this.#shown = shown;
  }

  #nothing() {
    if (this.#found.most === 0) return empty("Nothing is counted: the setting max_statement_texts is 0.");
    return empty(this.#found.statements.length ? "No statement has this text." : "No statement has ended since the counts began.");
  }

  #table(statements) {
    return h("section", { class: "panel" },
      h("p", { class: "note" }, `Of this node since ${moment(this.#found.since_ms)}: ${plural(this.#found.texts, "text")}. Literals are shown as ?.`),
      table("Statements", [{ title: "Statement" }, ...["Calls", "Errors", "In all", "A call", "Longest", "Rows", "Rows read"].map((title) => ({ title, number: true })), { title: "Served by" }],
        statements.map((each) => [
          h("a", { href: `#/sql?q=${encodeURIComponent(each.sql)}`, class: "statement" }, each.sql),
          count(each.calls), each.failed ? h("span", { class: "unwell" }, count(each.failed)) : "0",
          duration(each.total_ms / 1000), duration(each.mean_ms / 1000), duration(each.max_ms / 1000), count(each.rows), count(each.rows_read),
          each.served_by.join(", "),
        ])));
  }

  async #reset() {
    if (!(await confirmed("Forget the counts?", "The counts of all statements of this node begin again.", "Forget them"))) return;
    try {
      await send("DELETE", "v1/statements");
      fill(this.said);
      this.look();
    } catch (error) {
      fill(this.said, problem(error));
    }
  }
}

/** The reads that a node has counted, as a workload with a weight for each: a text of statements, and
 * a log of how often each was called. Statements of the system's relations are left out. */
export function workloadOf({ statements }) {
  const reads = statements.filter(({ kind, served_by, sql }) => kind === "read" && served_by.length && !sql.includes(";"));
  return {
    workload: reads.map(({ sql }, i) => `-- name: statement_${i + 1}\n${sql.trim()};\n`).join("\n"),
    log: reads.map(({ sql, calls }) => JSON.stringify({ sql, count: calls })).join("\n"),
  };
}
