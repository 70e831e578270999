// The page SQL: an editor, the rows of the result, and the plan next to them.

import { completionCatalog } from "./completion.js";
import { ask, confirmed, empty, fill, h, problem } from "./dom.js";
import { sqlEditor } from "./editor.js";
import { grid } from "./grid.js";
import { planPane } from "./planpane.js";
import { Problem, get } from "./rest.js";
import { MOST_ROWS, explain, file, freshKey, parameterValue, runQuery, runWrite } from "./running.js";
import { draft, forgetStatements, keepDraft, remember, statements } from "./sqlstore.js";
import { count, duration, moment, plural } from "./texts.js";
import { kindOf, parametersOf } from "./tokens.js";

const EXPLAIN = /^\s*explain\s+(?:\(([^)]*)\)\s*|(analyze\s+)?(?:verbose\s+)?)/i;
const FORMATS = ["csv", "json", "arrow"];

export function sqlPage({ parameters }) {
  const page = new SqlPage(parameters.get("q"));
  return { title: "SQL", element: page.element, close: () => page.cancel() };
}

class SqlPage {
  #catalog = [];
  #running = null;
  #last = null;
  #unknown = null;

  constructor(linked) {
    this.editor = sqlEditor({
      text: linked ?? draft(), catalog: () => this.#catalog,
      onrun: () => this.run(), onexplain: () => this.explainOnly(), onescape: () => this.cancel(),
      onchange: (text) => { keepDraft(text); this.#askParameters(); },
    });
    this.runButton = h("button", { type: "button", class: "primary", onclick: () => this.run() }, "Run");
    this.cancelButton = h("button", { type: "button", disabled: true, onclick: () => this.cancel() }, "Cancel");
    this.views = h("input", { type: "checkbox", id: "use-views", checked: true });
    this.given = h("div", { class: "parameters" });
    this.said = h("p", { class: "said", role: "status" });
    this.result = h("div", { class: "result" }, empty("Rows appear here. Ctrl+Enter runs the statement at the cursor."));
    this.plan = h("aside", { class: "plan", "aria-label": "Plan" }, empty("The plan appears here: which view or relation serves the statement, and why no other view does."));
    this.downloads = FORMATS.map((format) => h("button", { type: "button", disabled: true, onclick: () => this.download(format) }, format === "arrow" ? "Arrow" : format.toUpperCase()));
    this.element = h("div", {},
      h("h1", {}, "SQL"), this.editor.element, this.given,
      h("div", { class: "toolbar", role: "group", "aria-label": "Statement" },
        this.runButton, h("button", { type: "button", onclick: () => this.explainOnly() }, "Explain"), this.cancelButton,
        h("label", { for: "use-views", class: "check" }, this.views, "Use views"),
        h("span", { class: "gap" }),
        h("span", { class: "group" }, h("span", { class: "note" }, "Download"), this.downloads),
        h("button", { type: "button", onclick: () => this.history() }, "History"),
        h("button", { type: "button", onclick: () => this.link() }, "Copy link")),
      this.said, h("div", { class: "split" }, this.result, this.plan));
    this.#askParameters();
    get("v1/schema").then((schema) => { this.#catalog = completionCatalog(schema); }).catch((error) => { if (error.status !== 401) this.#say(`Names are not completed: ${error.message}`); });
  }

  // -------------------------------------------------------------- running

  async run() {
    const { sql } = this.editor.statement();
    if (!sql || this.#running) return;
    const kind = kindOf(sql);
    if (kind === "explain") { await this.explainOnly(); return; }
    if (kind !== "read" && kind !== "write") { this.#refuse(kind); return; }
    if (kind === "write" && !(await confirmed("Run a statement that writes?", "It is committed at once, as a transaction of its own.", "Run it"))) return;
    remember(sql);
    this.#linkTo(sql);
    const body = { sql, ...this.#parameters(sql) };
    await this.#busy(async (signal) => {
      const explained = this.#explain({ ...body, use_views: this.views.checked }, signal);
      if (kind === "write") await this.#write(body, signal);
      else await this.#query({ ...body, use_views: this.views.checked }, signal);
      await explained;
    });
  }

  async explainOnly() {
    const { sql } = this.editor.statement();
    if (!sql || this.#running) return;
    const [head, options = "", analyze] = EXPLAIN.exec(sql) ?? [""];
    const bare = sql.slice(head.length);
    const measured = Boolean(analyze) || /\banalyze\b(?!\s*(?:false|off|0))/i.test(options);
    remember(sql);
    await this.#busy((signal) => this.#explain({ sql: bare, ...this.#parameters(bare), use_views: this.views.checked, analyze: measured }, signal, true));
  }

  cancel() {
    this.#running?.abort();
  }

  async #busy(work) {
    const running = new AbortController();
    this.#running = running;
    this.#enable();
    const began = performance.now();
    const timer = setInterval(() => { this.runButton.textContent = `Running, ${duration((performance.now() - began) / 1000)}`; }, 200);
    try {
      await work(running.signal);
    } catch (error) {
      if (error.name === "AbortError") this.#say(`Cancelled after ${duration((performance.now() - began) / 1000)}.`);
      else this.#fail(error);
    } finally {
      clearInterval(timer);
      running.abort(); // an explanation that is still under way
      this.#running = null;
      this.runButton.textContent = "Run";
      this.#enable();
    }
  }

  async #query(body, signal) {
    this.#last = null;
    this.#say("");
    fill(this.result);
    let shown = null;
    const done = await runQuery(body, signal, {
      begin: (columns) => { shown = grid(columns); fill(this.result, shown.element); },
      add: (rows) => { if (rows.length) shown.add(rows); },
    });
    this.#last = { ...body, ...(done.snapshot ? { snapshot: done.snapshot } : {}) };
    if (shown?.length === 0) this.result.append(empty("The result has no rows."));
    this.#say(done.cut
      ? `The first ${count(MOST_ROWS)} rows are shown. Downloads have all of them.`
      : `${plural(done.rows, "row")} in ${duration(done.elapsed_ms / 1000)}, as of ${moment(done.snapshot)}.`);
  }

  async #write(statement, signal) {
    this.#last = null;
    this.#say("");
    const text = JSON.stringify(statement);
    const key = this.#unknown?.text === text ? this.#unknown.key : freshKey();
    this.#unknown = { text, key }; // sent again after an unknown outcome, it takes effect once
    const done = await runWrite(statement, key, signal);
    this.#unknown = null;
    const [{ tag, columns, rows }] = done.statements;
    const changed = Object.entries(done.affected).map(([name, n]) => `${name} ${n}`).join(", ");
    this.#say(`${tag ?? "Done"}. ${changed ? `Stored rows changed: ${changed}.` : "No stored row changed."}`);
    if (!columns.length) { fill(this.result, empty("The statement returns no rows.")); return; }
    const shown = grid(columns);
    fill(this.result, shown.element);
    shown.add(rows);
  }

  async #explain(body, signal, only = false) {
    fill(this.plan, empty("Asking for the plan …"));
    try {
      const explanation = await explain(body, signal);
      fill(this.plan, planPane(explanation));
      this.#nameParameters(explanation.parameters ?? []);
      if (only) { this.#say("Explained, not run."); if (explanation.ran) this.#say("Explained, and run to measure it."); }
    } catch (error) {
      if (error.name === "AbortError") fill(this.plan, empty("There is no plan: the statement was cancelled."));
      else if (only) { fill(this.plan, empty("There is no plan.")); this.#fail(error); }
      else fill(this.plan, empty(`There is no plan: ${error.message}`));
    }
  }

  #refuse(word) {
    this.#fail(new Problem({
      detail: `The console runs queries and writes, and ${word.toUpperCase()} is neither.`,
      cure: "Changes of the schema are planned and applied: hornbeam schema plan, or hornbeam sql.", code: "not-for-the-console",
    }));
  }

  #fail(error) {
    this.#say("");
    fill(this.result, problem(error));
  }

  #say(text) {
    this.said.textContent = text;
  }

  #enable() {
    const running = this.#running !== null;
    this.runButton.disabled = running;
    this.cancelButton.disabled = !running;
    for (const button of this.downloads) button.disabled = running || this.#last === null;
  }

  // -------------------------------------------------------------- parameters

  #askParameters() {
    const { names, count: n } = parametersOf(this.editor.statement().sql);
    const wanted = names.length ? names : Array.from({ length: n }, (_, i) => String(i + 1));
    const before = new Map([...this.given.querySelectorAll("input")].map((input) => [input.name, input.value]));
    if (wanted.join() === [...before.keys()].join()) return;
    fill(this.given, wanted.map((name) => h("label", {}, h("span", {}, names.length ? `:${name}` : `?${name}`, h("small", { "data-parameter": name })),
      h("input", { name, value: before.get(name) ?? "", spellcheck: "false", autocomplete: "off" }))),
    wanted.length ? h("p", { class: "note" }, "Values are JSON or text: 7, 19.90, true, null, \"7\" for the text 7.") : null);
  }

  #nameParameters(types) {
    types.forEach(({ name, type }) => {
      const shown = /^\d+$/.test(name) ? String(Number(name) + 1) : name;
      const label = this.given.querySelector(`[data-parameter="${CSS.escape(shown)}"]`);
      if (label) label.textContent = type.toLowerCase();
    });
  }

  #parameters(sql) {
    const { names, count: n } = parametersOf(sql);
    const value = (name) => parameterValue(this.given.querySelector(`input[name="${CSS.escape(name)}"]`)?.value ?? "");
    if (names.length) return { parameters: Object.fromEntries(names.map((name) => [name, value(name)])) };
    return n ? { parameters: Array.from({ length: n }, (_, i) => value(String(i + 1))) } : {};
  }

  // -------------------------------------------------------------- history, links, files

  async history() {
    const chosen = await ask("History", (close) => [
      statements().length
        ? h("ul", { class: "history" }, statements().map(({ sql, at }) => h("li", {}, h("button", { type: "button", onclick: () => close(sql) }, h("code", {}, sql), h("span", { class: "note" }, moment(at))))))
        : empty("No statement was run in this tab."),
      h("div", { class: "actions" },
        h("button", { type: "button", onclick: () => { forgetStatements(); close(); } }, "Forget all"),
        h("button", { type: "button", class: "primary", onclick: () => close() }, "Close")),
    ]);
    if (chosen !== undefined) this.editor.text = chosen;
    this.editor.focus();
  }

  #linkTo(sql) {
    history.replaceState(null, "", `#/sql?${new URLSearchParams({ q: sql })}`);
  }

  async link() {
    this.#linkTo(this.editor.text);
    try {
      await navigator.clipboard.writeText(location.href);
      this.#say("The link is copied. It holds the text, not the result and not the key.");
    } catch {
      this.#say("The address of this page holds the text: copy it from there.");
    }
  }

  download(format) {
    const { ...body } = this.#last;
    return this.#busy(async (signal) => {
      const blob = await file(body, format, signal);
      const link = h("a", { href: URL.createObjectURL(blob), download: `result.${format}` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
      this.#say(`result.${format} is saved.`);
    });
  }
}
