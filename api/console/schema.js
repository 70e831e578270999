// The page Schema: trees and views as a graph, and all about the relation or view that is chosen.

import { confirmed, empty, fill, h, problem, table } from "./dom.js";
import { graph } from "./graph.js";
import { progress, state } from "./overview.js";
import { Problem, get, lines, post, send } from "./rest.js";
import { bytes, count, duration, measure, moment, plural } from "./texts.js";

const BUILDING_MS = 1_000;
const MOST_EXPLAINED = 200;

export function schemaPage({ rest: [chosen] }) {
  const page = new SchemaPage(chosen ?? null);
  page.load();
  return { title: chosen ? `${chosen}, schema` : "Schema", element: page.element, close: () => page.stop.abort() };
}

class SchemaPage {
  stop = new AbortController();

  constructor(chosen) {
    this.chosen = chosen;
    this.picture = h("div", { class: "picture" });
    this.details = h("div", { class: "details" });
    this.said = h("div", { class: "upkeep", role: "status" });
    this.verifyAll = h("button", { type: "button", onclick: () => this.verify(null) }, "Verify everything");
    this.element = h("div", {}, h("div", { class: "titled" }, h("h1", {}, "Schema"), this.verifyAll), this.said, this.picture, this.details);
  }

  async load() {
    const { signal } = this.stop;
    try {
      const [schema, status] = await Promise.all([get("v1/schema", { signal }), get("v1/status", { signal })]);
      Object.assign(this, { schema, status });
      if (!schema.relations.length && !schema.views.length) {
        fill(this.picture, empty("There is no relation that this key may read. Apply a schema, or ask for a key with more grants."));
        this.verifyAll.hidden = true;
        return;
      }
      fill(this.picture, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Graph of the schema" }, graph(schema, this.chosen)), legend());
      this.picture.querySelector(".chosen")?.scrollIntoView({ block: "nearest", inline: "nearest" });
      if (this.chosen === null) fill(this.details, this.#everything());
      else await this.#one();
    } catch (error) {
      if (error.name !== "AbortError") fill(this.details, problem(error));
    }
  }

  #everything() {
    const { relations, views, plain_views: plain, indexes, version } = this.schema;
    return h("section", { class: "panel" }, h("h2", {}, "Relations"),
      h("p", { class: "note" }, `Version ${version}: ${plural(relations.length, "relation")}, ${plural(views.length, "view")}, ${plural(indexes.length, "index", "indexes")}${plain.length ? `, ${plural(plain.length, "plain view")}` : ""}. Choose one in the graph.`),
      table("Relations", [{ title: "Relation" }, { title: "Root of its tree" }, { title: "Rows", number: true }, { title: "Columns", number: true }, { title: "Key" }],
        relations.map((r) => [link(r.name), r.root, count(r.rows), count(r.columns.length), r.primary_key.join(", ")])));
  }

  async #one() {
    const relation = this.schema.relations.find(({ name }) => name === this.chosen);
    const plain = this.schema.plain_views.find(({ name }) => name === this.chosen);
    if (relation) fill(this.details, relationPanels(this.schema, relation), this.#size());
    else if (plain) fill(this.details, plainPanels(plain));
    else await this.#view();
  }

  async #view() {
    const { signal } = this.stop;
    const view = await get(`v1/views/${encodeURIComponent(this.chosen)}`, { signal });
    const verified = this.status.verified.filter(({ name }) => name === view.name || view.indexes.some((index) => index.name === name));
    fill(this.details, viewPanels(view, verified, [
      h("button", { type: "button", onclick: () => this.verify([view.name, ...view.indexes.map(({ name }) => name)]) }, "Verify"),
      h("button", { type: "button", class: "danger", onclick: () => this.rebuild(view) }, view.deferred ? "Rebuild with the next batch" : "Rebuild"),
    ]), this.#served(view), this.#worth(view));
    if (view.state === "building" || view.state === "catching up") {
      setTimeout(() => { if (!signal.aborted) this.#view().catch(() => {}); }, BUILDING_MS);
    }
  }

  /** The statements of the workload that the view serves, from their plans. */
  #served(view) {
    const all = this.schema.workload.slice(0, MOST_EXPLAINED);
    const shown = h("div", {}, all.length ? h("button", {
      type: "button", onclick: async (event) => {
        event.target.disabled = true;
        try {
          fill(shown, servedBy(view, await this.#plans(all, shown)));
        } catch (error) {
          if (error.name !== "AbortError") fill(shown, problem(error));
        }
      },
    }, `Explain the ${plural(all.length, "statement")} of the workload`) : empty("There is no workload that this key may read."));
    return panel("What it serves", shown);
  }

  /** What the view costs writers and saves readers, by the planner's estimate for the workload in force. */
  #worth(view) {
    const shown = h("div", {}, h("button", {
      type: "button", onclick: async (event) => {
        event.target.disabled = true;
        try {
          const { plan } = await post("v1/schema/plan", { ddl: this.schema.ddl, workload: null }, { signal: this.stop.signal });
          fill(shown, worth(view, plan));
        } catch (error) {
          if (error.name !== "AbortError") fill(shown, problem(error));
        }
      },
    }, "Estimate for the workload in force"));
    return panel("What it costs and saves", shown);
  }

  async #plans(statements, shown) {
    const plans = [];
    for (const statement of statements) {
      fill(shown, h("p", {}, `Explained ${count(plans.length)} of ${count(statements.length)} …`));
      try {
        plans.push({ statement, plan: await post("v1/explain", { sql: statement.sql }, { signal: this.stop.signal }) });
      } catch (error) {
        if (!(error instanceof Problem) || error.status === 401) throw error;
        plans.push({ statement, plan: null });
      }
    }
    return plans;
  }

  #size() {
    const shown = h("p", {}, h("button", {
      type: "button", onclick: async (event) => {
        event.target.disabled = true;
        try {
          const { bytes: sizes } = await get("v1/status?sizes=true", { signal: this.stop.signal });
          const own = this.schema.indexes.filter(({ on }) => on === this.chosen).map(({ name }) => name);
          fill(shown, `${bytes(sizes[this.chosen])} of rows, ${bytes(own.reduce((sum, name) => sum + (sizes[name] ?? 0), 0))} of indexes.`);
        } catch (error) {
          fill(shown, problem(error));
        }
      },
    }, "Count the bytes"));
    return h("section", { class: "panel" }, h("h2", {}, "Size"), shown);
  }

  async verify(names) {
    const what = names === null ? "all views, indexes, foreign keys and CHECKs" : names[0];
    if (!(await confirmed("Verify?", `${what} ${names === null ? "are" : "is"} computed again from the relations and compared with what is stored. It reads all rows, and changes nothing.`, "Verify"))) return;
    try {
      const response = await send("POST", "v1/verify", { body: { names }, accept: "application/x-ndjson", signal: this.stop.signal });
      for await (const line of lines(response)) {
        if (line.progress) fill(this.said, h("p", {}, `Verifying ${line.progress.name}: ${count(line.progress.done)} of ${count(line.progress.total)} rows.`));
        if (line.report) fill(this.said, report(line.report));
      }
      this.load();
    } catch (error) {
      if (error.name !== "AbortError") fill(this.said, problem(error));
    }
  }

  async rebuild(view) {
    const meanwhile = "Until it is built again, no query reads it, and queries that it serves are answered from the relations.";
    if (!(await confirmed(`Rebuild ${view.name}?`, meanwhile, "Rebuild"))) return;
    try {
      if (view.deferred) await post("v1/groups/rebuild", { views: [view.name] });
      else await post("v1/rebuild", { views: [view.name] });
      fill(this.said, h("p", {}, view.deferred ? `The next batch of the group ${view.deferred.group} rebuilds ${view.name}.` : `${view.name} is built again; it says here when it is readable.`));
      this.load();
    } catch (error) {
      fill(this.said, problem(error));
    }
  }
}

// ---------------------------------------------------------------- panels

const link = (name) => h("a", { href: `#/schema/${encodeURIComponent(name)}` }, name);
const panel = (title, ...children) => h("section", { class: "panel" }, h("h2", {}, title), children);

const comment = (thing) => (thing.comment ? h("p", {}, thing.comment) : null);

const legend = () => h("p", { class: "note legend" },
  h("span", { class: "swatch tree" }), "edge of a tree", h("span", { class: "swatch key" }), "other foreign key", h("span", { class: "swatch view" }), "view reads relation");

function relationPanels(schema, relation) {
  const indexes = schema.indexes.filter(({ on }) => on === relation.name);
  const views = schema.views.filter(({ path }) => path.includes(relation.name));
  const incoming = schema.relations.flatMap((other) => other.foreign_keys.filter(({ parent }) => parent === relation.name).map((key) => ({ other, key })));
  return [
    panel(relation.name, comment(relation),
      facts([["Kind", "relation"], ["Rows", count(relation.rows)], ["Root of its tree", relation.root ? link(relation.root) : "–"], ["Primary key", relation.primary_key.join(", ")],
        ["Look at it", h("a", { href: `#/sql?${new URLSearchParams({ q: `SELECT * FROM ${name(relation.name)} LIMIT 100` })}` }, "SELECT * … LIMIT 100")]]),
      columnTable(relation.columns.map((c) => [c.name, c.declared.toLowerCase(), c.nullable ? "" : "not null", c.identity ? "identity" : c.generated ? `generated: ${c.generated}` : c.default_sql ?? c.default ?? ""]), ["Column", "Type", "NULL", "Default"])),
    panel("Foreign keys",
      relation.foreign_keys.length || incoming.length ? table("Foreign keys", [{ title: "From" }, { title: "To" }, { title: "On delete" }], [
        ...relation.foreign_keys.map((key) => [key.columns.join(", "), [link(key.parent), ` (${key.parent_columns.join(", ")})`], key.on_delete.toLowerCase()]),
        ...incoming.map(({ other, key }) => [[link(other.name), ` (${key.columns.join(", ")})`], key.parent_columns.join(", "), key.on_delete.toLowerCase()]),
      ]) : empty("No foreign key leads from or to this relation."),
      relation.checks.length ? table("CHECKs", [{ title: "CHECK" }, { title: "Condition" }], relation.checks.map((check) => [check.name, h("code", {}, check.sql)])) : null),
    indexPanel(indexes),
    panel("Views that read it", views.length ? h("ul", { class: "names" }, views.map((view) => h("li", {}, link(view.name)))) : empty("No view reads this relation.")),
  ];
}

const PLAIN = /^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)*$/;
const name = (text) => (PLAIN.test(text) ? text : `"${text.replaceAll('"', '""')}"`);

const columnTable = (rows, titles) => table("Columns", titles.map((title) => ({ title })), rows);

const facts = (rows) => h("dl", {}, rows.map(([title, value]) => h("div", {}, h("dt", {}, title), h("dd", {}, value))));

function indexPanel(indexes) {
  return panel("Indexes", indexes.length
    ? table("Indexes", [{ title: "Index" }, { title: "Columns" }, { title: "State" }, { title: "Why" }],
      indexes.map((i) => [i.name, i.columns.map((c) => (typeof c === "string" ? c : `${c.column}${c.descending ? " desc" : ""}`)).join(", "), state(i.state), i.reason || i.purpose]))
    : empty("There is no index."));
}

function viewPanels(view, verified, buttons) {
  const kind = view.deferred ? (view.deferred.refresh === "live" ? "live view" : "deferred view") : view.immediate ? "immediate view" : "view along a tree";
  const sql = view.deferred?.sql ?? view.immediate?.sql;
  const program = view.deferred?.program ?? view.immediate?.program;
  return [
    panel(view.name, comment(view),
      facts([
        ["Kind", view.immediate?.chosen ? `${kind}, chosen for the workload` : kind],
        ["State", state(view.state)],
        ["Reads", view.path.flatMap((each, i) => [i ? ", " : "", link(each)])],
        ["Key", view.key.join(", ")],
        ["Rows", view.rows === null ? "–" : `about ${count(view.rows)}`],
        ["Bytes", bytes(view.bytes)],
        ...(view.deferred ? fresh(view.deferred) : []),
      ]),
      view.progress && !view.progress.finished ? h("div", { class: "build" }, progress({ ...view.progress, name: view.name })) : null,
      view.progress?.error ? h("p", { class: "unwell" }, view.progress.error) : null,
      h("div", { class: "buttons" }, buttons, h("a", { href: `#/sql?${new URLSearchParams({ q: `SELECT * FROM ${name(view.name)} LIMIT 100` })}` }, "SELECT * … LIMIT 100"))),
    panel("Last verification", verified.length
      ? table("Last verification", [{ title: "Name" }, { title: "At" }, { title: "Rows", number: true }, { title: "Differences", number: true }, { title: "Repaired", number: true }],
        verified.map((last) => [last.name, moment(last.snapshot), count(last.rows), count(last.differences), count(last.repaired)]))
      : empty("It was not verified since this node has started.")),
    panel("Columns", columnTable(view.columns.map((c) => [c.name, c.type.toLowerCase(), c.relation ? [link(c.relation), `.${c.column}`] : ""]), ["Column", "Type", "From"])),
    indexPanel(view.indexes),
    sql ? panel("SELECT", h("pre", { tabindex: "0" }, sql)) : null,
    program?.length ? panel("How it is kept", h("pre", { tabindex: "0" }, program.join("\n"))) : null,
  ].filter(Boolean);
}

/** The estimates of a plan for one of its views. Costs are in reads of a row. */
function worth(view, plan) {
  const planned = plan.views.find(({ name }) => name === view.name);
  if (!planned) return empty("The planner does not choose this view for the workload in force, so there is no estimate. Declared views are kept whatever they cost.");
  const served = plan.queries.filter(({ views }) => views.includes(view.name));
  return [
    h("p", {}, `Its worth is ${measure(planned.value)}: the plan's objective loses so much without it. To keep it costs ${measure(planned.upkeep)} reads of a row for each unit of the workload. All costs are in reads of a row.`),
    table("Saved for readers", [{ title: "Statement" }, { title: "Without views", number: true }, { title: "With views", number: true }],
      served.map((each) => [each.statement, measure(each.base_cost), measure(each.cost)])),
    planned.by_statement.length
      ? table("Cost to writers", [{ title: "Statement" }, { title: "Cost", number: true }], planned.by_statement.map(([statement, cost]) => [statement, measure(cost)]))
      : empty("No statement of the workload writes what it reads."),
  ];
}

function servedBy(view, plans) {
  const served = plans.filter(({ plan }) => plan?.views?.includes(view.name));
  const failed = plans.filter(({ plan }) => plan === null).length;
  return [
    served.length
      ? table("Statements that it serves", [{ title: "Statement" }, { title: "Weight", number: true }, { title: "" }], served.map(({ statement }) => [
        statement.name || h("code", {}, statement.sql.slice(0, 80)), count(statement.weight),
        h("a", { href: `#/sql?${new URLSearchParams({ q: statement.sql })}`, "aria-label": `Open ${statement.name || "the statement"}` }, "Open")]))
      : empty("It serves no statement of the workload."),
    failed ? h("p", { class: "note" }, `${plural(failed, "statement")} could not be explained.`) : null,
  ];
}

const fresh = (deferred) => [
  ["Group", deferred.group],
  ["Shows", deferred.as_of ? moment(deferred.as_of) : "nothing yet"],
  ["Age", duration(deferred.lag_s)],
  ["Last batch", deferred.last ? `${plural(deferred.last.changes, "change")}, ${plural(deferred.last.rows, "row")}, ${duration(deferred.last.seconds)}` : "–"],
  ...(deferred.problem ? [["Trouble", `${deferred.problem.message} ${deferred.problem.cure}`]] : []),
];

const plainPanels = (view) => [
  panel(view.name, comment(view), facts([["Kind", "plain view, which is not stored"], ["Reads", view.sources.flatMap((each, i) => [i ? ", " : "", link(each)])]]), h("pre", { tabindex: "0" }, view.sql)),
  panel("Columns", columnTable(view.columns.map((c) => [c.name, c.type.toLowerCase()]), ["Column", "Type"])),
];

function report({ differences, checked, snapshot }) {
  const wrong = checked.filter((item) => item.missing + item.extra + item.different + item.misplaced > 0);
  const rows = checked.reduce((sum, item) => sum + item.rows, 0);
  return [
    h("p", { class: differences ? "unwell" : "well" }, `${plural(checked.length, "object")} with ${plural(rows, "row")}: ${plural(differences, "difference")}, as of ${moment(snapshot)}.`),
    wrong.length ? table("Differences", [{ title: "Name" }, { title: "Kind" }, ...["Missing", "Extra", "Different", "Misplaced"].map((title) => ({ title, number: true })), { title: "Rows" }],
      wrong.map((item) => [item.name, item.kind, count(item.missing), count(item.extra), count(item.different), count(item.misplaced), item.offending.join("; ")])) : null,
  ];
}
