// The page Plan: a schema and a workload become trees, views and indexes, which can be applied.

import { ask, empty, fill, h, problem, table } from "./dom.js";
import { graph } from "./graph.js";
import { get, lines, post, send } from "./rest.js";
import { workloadOf } from "./statements.js";
import { bytes, count, measure, plural } from "./texts.js";

/** `?workload=statements` fills the workload with the reads that the node has counted. */
export function planPage({ parameters }) {
  const page = new PlanPage(parameters.get("workload") === "statements");
  page.load();
  return { title: "Plan", element: page.element, close: () => { page.stop.abort(); page.planning?.abort(); } };
}

class PlanPage {
  stop = new AbortController();
  planning = null;
  #known = { ddl: "", workload: "" };
  #counted = { workload: "", log: "" };

  constructor(counted) {
    this.takesCounted = counted;
    this.ddl = text("plan-ddl", "CREATE TABLE …");
    this.workload = text("plan-workload", "-- name: orders_of_a_customer\nSELECT … WHERE c_id = ?;");
    this.method = h("select", { id: "plan-method" }, h("option", { value: "optimal" }, "ours"), h("option", { value: "paper" }, "the paper's"));
    this.budget = h("input", { id: "plan-budget", type: "number", min: 0, step: "any", placeholder: "none" });
    this.aggregates = h("input", { id: "plan-aggregates", type: "checkbox", checked: true });
    this.planButton = h("button", { type: "submit", class: "primary" }, "Plan");
    this.cancelButton = h("button", { type: "button", disabled: true, onclick: () => this.planning?.abort() }, "Cancel");
    this.said = h("div", { role: "status" });
    this.result = h("div", {}, empty("Planning changes nothing. The plan appears here, and can then be applied."));
    this.element = h("div", {}, h("h1", {}, "Plan"),
      h("form", { onsubmit: (event) => { event.preventDefault(); this.plan(); } },
        h("div", { class: "sources" }, source("Schema (DDL)", this.ddl), source("Workload: the statements that the application sends", this.workload)),
        h("div", { class: "toolbar" }, this.planButton, this.cancelButton,
          h("label", { for: "plan-method" }, "Method"), this.method,
          h("label", { for: "plan-budget" }, "Bytes of views, times the relations'"), this.budget,
          h("label", { for: "plan-aggregates", class: "check" }, this.aggregates, "Aggregate views"))),
      this.said, this.result);
  }

  async load() {
    try {
      const schema = await get("v1/schema", { signal: this.stop.signal });
      const workload = schema.workload.map(({ name, sql }) => `${name ? `-- name: ${name}\n` : ""}${sql.trim()};\n`).join("\n");
      this.#known = { ddl: schema.ddl, workload };
      if (this.takesCounted) {
        this.#counted = workloadOf(await get("v1/statements?limit=500", { signal: this.stop.signal }));
        this.workload.value = this.#counted.workload;
        if (!this.workload.value) fill(this.said, h("p", {}, "This node has counted no read of a relation or view yet. The workload below is the one in force."));
      }
      if (!this.ddl.value) this.ddl.value = schema.ddl;
      if (!this.workload.value) this.workload.value = workload;
    } catch (error) {
      if (error.name !== "AbortError") fill(this.said, problem(error));
    }
  }

  /** The request. A workload that is not changed is the one in force, with its weights, or has those that were counted. */
  #body() {
    const budget = this.budget.value === "" ? null : Number(this.budget.value);
    const [same, counted] = [this.#known, this.#counted].map(({ workload }) => this.workload.value === workload);
    const log = counted ? { query_log: this.#counted.log } : {};
    return { ddl: this.ddl.value, workload: same ? null : this.workload.value, ...log, method: this.method.value, budget, aggregates: this.aggregates.checked };
  }

  async plan() {
    const body = this.#body();
    this.planning = new AbortController();
    this.#enable(false);
    fill(this.result);
    try {
      const response = await send("POST", "v1/schema/plan", { body, accept: "application/x-ndjson", signal: this.planning.signal });
      for await (const line of lines(response)) {
        if (line.progress) fill(this.said, h("label", {}, "Searching … ", h("progress", { value: line.progress.done, max: line.progress.total })));
        if (line.plan) this.#show(body, line.plan);
      }
    } catch (error) {
      fill(this.said, error.name === "AbortError" ? h("p", {}, "Cancelled.") : planProblem(error));
    } finally {
      this.planning = null;
      this.#enable(true);
    }
  }

  #enable(idle) {
    this.planButton.disabled = !idle;
    this.cancelButton.disabled = idle;
  }

  #show(body, planned) {
    fill(this.said);
    const changes = [...planned.changes, ...planned.declared_views];
    fill(this.result,
      panel(changes.length ? plural(changes.length, "change") : "No change",
        changes.length ? table("Changes", [{ title: "Action" }, { title: "Kind" }, { title: "Name" }, { title: "Detail" }], changes.map((c) => [c.action, c.kind ?? "view", c.name, c.detail]))
          : empty("The plan is what is in force."),
        h("div", { class: "buttons" }, h("button", { type: "button", class: "primary", onclick: () => this.apply(body, planned, changes) }, "Apply"), h("span", { class: "note" }, `Plan ${planned.plan_id}`))),
      planPanels(planned));
  }

  async apply(body, planned, changes) {
    const drops = changes.filter(({ action }) => action === "drop");
    const allowed = h("input", { type: "checkbox", id: "allow-drop" });
    const sure = await ask("Apply the plan?", (close) => [
      h("p", {}, `${plural(changes.length, "change")}. Views are built in the background, while writers go on.`),
      drops.length ? [
        h("p", {}, `It drops ${drops.map(({ kind, name }) => `${kind ?? "view"} ${name}`).join(", ")}.`),
        h("label", { for: "allow-drop" }, allowed, "Rows and values of relations and columns may be lost")] : null,
      h("div", { class: "actions" }, h("button", { type: "button", onclick: () => close(false) }, "Cancel"), h("button", { type: "button", class: "primary", onclick: () => close(true) }, "Apply")),
    ]);
    if (!sure) return;
    fill(this.said, h("p", {}, "Applying …"));
    try {
      const done = await post("v1/schema/apply", { ...body, plan_id: planned.plan_id, allow_drop: allowed.checked }, { signal: this.stop.signal });
      fill(this.said, h("p", { class: "well" }, `Version ${done.catalog_version} of the schema is in force. ${done.building.length ? `Being built: ${done.building.join(", ")}.` : "Nothing is left to build."}`));
      fill(this.result, empty(h("a", { href: "#/schema" }, "The page Schema"), " shows the relations and views."));
    } catch (error) {
      if (error.name !== "AbortError") fill(this.said, planProblem(error));
    }
  }
}

const text = (id, placeholder) => h("textarea", { id, rows: 12, spellcheck: "false", placeholder });

/** A field for a text, which a file can fill. */
function source(title, field) {
  const file = h("input", {
    type: "file", accept: ".sql,.txt,text/*", "aria-label": `A file for: ${title}`,
    onchange: async () => { if (file.files.length) field.value = await file.files[0].text(); },
  });
  return h("div", {}, h("label", { for: field.id }, title), field, file);
}

/** An error with all problems of the texts, each with its place. */
function planProblem(error) {
  const all = error.problems ?? [];
  return [problem(error), all.length > 1 ? table("All problems", [{ title: "Where" }, { title: "What" }, { title: "What to do" }],
    all.map((each) => [`${each.file} ${each.line}:${each.column}`, each.detail, each.cure])) : null];
}

const panel = (title, ...children) => h("section", { class: "panel" }, h("h2", {}, title), children);

/** The parts of a plan. */
function planPanels({ plan, text: whole }) {
  return [
    panel("Methods", h("p", { class: "note" }, "Reads are faster by the first number, and writes slower by the second, over the whole workload."),
      table("Methods", [{ title: "Method" }, ...["Faster", "Slower", "Joins covered", "Views"].map((title) => ({ title, number: true })), { title: "Bytes", number: true }],
        plan.methods.map((m) => [`${m.method === "optimal" ? "ours" : "the paper's"}${m.chosen ? " (chosen)" : ""}`, `${measure(m.faster)} ×`, `${measure(m.slower * 100)} %`, `${count(m.joins)} of ${count(plan.joins)}`, count(m.views.length), bytes(m.size)]))),
    panel("Trees and views", h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Graph of the plan" }, graph(planned(plan), null, null))),
    panel("Views", plan.views.length ? table("Views", [{ title: "View" }, { title: "Serves" }, { title: "Rows", number: true }, { title: "Bytes", number: true }, { title: "Worth", number: true }, { title: "Costs writers" }],
      plan.views.map((v) => [v.name, v.serves.join(", "), count(v.rows), bytes(v.size), measure(v.value), v.by_statement.map(([name, cost]) => `${name} ${measure(cost)}`).join(", ")])) : empty("No view pays for this workload.")),
    panel("Statements", table("Statements", [{ title: "Statement" }, { title: "Without views", number: true }, { title: "Cost", number: true }, { title: "Served by" }, { title: "Not covered, and why" }],
      plan.queries.map((q) => [q.statement, measure(q.base_cost), measure(q.cost), [...q.views, ...q.indexes].join(", "), [...q.uncovered, ...q.aggregates, ...q.deferred].join("; ")]))),
    plan.dropped.length ? panel("Views that do not pay", table("Views that do not pay", [{ title: "Candidate" }, { title: "Why not" }], plan.dropped)) : null,
    panel("Indexes", plan.indexes.length ? table("Indexes", [{ title: "Index" }, { title: "Columns" }, { title: "Why" }], plan.indexes.map((i) => [i.name, i.columns.join(", "), i.reason])) : empty("No index is needed.")),
    plan.notes.length ? panel("Notes", h("ul", { class: "notes" }, plan.notes.map((note) => h("li", {}, note)))) : null,
    plan.assumed.length ? panel("Assumed", h("p", {}, `The rows of ${plan.assumed.join(", ")} are assumed.`), h("p", { class: "note" }, plan.note)) : null,
    h("details", {}, h("summary", {}, "The plan as text"), h("pre", { tabindex: "0" }, whole)),
  ];
}

/** A plan in the form of a schema, for the graph. */
function planned(plan) {
  const parent = ({ path }) => path.at(-2);
  return {
    relations: plan.relations.map((r) => ({ name: r.relation, foreign_keys: parent(r) ? [{ name: "tree", parent: parent(r) }] : [] })),
    trees: Object.fromEntries(plan.relations.map((r) => [r.relation, parent(r) ? { parent: parent(r), foreign_key: "tree" } : null])),
    views: plan.views,
  };
}
