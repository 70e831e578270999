// The page Transactions, for administrators: what is under way, which locks it waits for, and hot slots.

import { empty, fill, h, problem, repeated, table } from "./dom.js";
import { get } from "./rest.js";
import { count, duration, measure } from "./texts.js";

const EVERY_MS = 1_000;

export const transactionsPage = () => repeated("Transactions", new TransactionsPage());

class TransactionsPage {
  stop = new AbortController();
  timer = null;
  #shown = "";

  constructor() {
    this.list = h("div", {}, h("p", {}, "Asking the node …"));
    this.element = h("div", {}, h("h1", {}, "Transactions"), this.list);
  }

  async look() {
    const { signal } = this.stop;
    try {
      const [running, status] = await Promise.all([get("v1/transactions", { signal }), get("v1/status", { signal })]);
      const found = [panel("Under way at this node", underWay(running)), panel("Locks that most wait for", wanted(status.locks)), ...slots(status.nodes)];
      const shown = found.map((each) => each.textContent).join("\n");
      if (shown !== this.#shown) fill(this.list, found);
      this.#shown = shown;
    } catch (error) {
      if (error.name === "AbortError") return;
      this.#shown = "";
      fill(this.list, problem(error));
      if (error.status === 401 || error.status === 403) return;
    }
    if (!signal.aborted) this.timer = setTimeout(() => this.look(), EVERY_MS);
  }
}

function underWay(running) {
  if (!running.length) return empty("No transaction is under way. One of a client's session is under way only while it commits: before that it holds no locks.");
  return table("Transactions under way",
    [{ title: "Age", number: true }, { title: "State" }, { title: "Waits for" }, { title: "Attempt", number: true }, { title: "Locks", number: true }, { title: "Statements" }, { title: "API key" }, { title: "Id" }],
    running.map((each) => [
      duration(each.age_ms / 1000), h("span", { class: each.state === "waits" ? "unwell" : null }, each.state), lock(each), count(each.attempt), count(each.locks),
      [each.statements.map((sql) => h("code", { class: "statement" }, sql)), each.more ? h("span", { class: "note" }, `and ${count(each.more)} more`) : null],
      each.owner || "–", h("code", {}, each.transaction_id),
    ]));
}

/** The lock for which a transaction waits. */
export function lock({ waits_for: wanted, at }) {
  if (wanted === null) return "–";
  const key = wanted.key === null ? "" : ` (${wanted.key.join(", ")})`;
  return `${wanted.kind} ${wanted.name}${key}${at ? ` at ${at}` : ""}`;
}

function wanted({ hot, held, waiting }) {
  const counts = h("p", { class: "note" }, `${count(held)} held, ${count(waiting)} waiting.`);
  if (!hot.length) return [counts, empty("No transaction waits for a lock of this node.")];
  return [counts, table("Locks", [{ title: "Lock" }, { title: "Waiting", number: true }], hot.map((each) => [h("code", {}, each.lock), count(each.waiting)]))];
}

/** The slots in which most locks are granted; nothing for a database in a folder. */
function slots(nodes) {
  if (!nodes) return [];
  return [panel("Hottest slots of locks", nodes.hot_slots.length
    ? table("Slots", [{ title: "Slot", number: true }, { title: "Node" }, { title: "Work a minute", number: true }], nodes.hot_slots.map((each) => [each.slot, each.owner, measure(each.work_per_minute)]))
    : empty("No rate is measured yet."))];
}

const panel = (title, ...children) => h("section", { class: "panel" }, h("h2", {}, title), children);
