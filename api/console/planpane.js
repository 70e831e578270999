// The plan of a statement: what serves it, and why no other view does.

import { empty, h } from "./dom.js";
import { plural } from "./texts.js";

/** The plan as children of a pane. */
export function planPane(explanation) {
  const views = new Set(explanation.views ?? []);
  const steps = explanation.steps ?? [];
  return [
    h("h2", {}, "Served by"),
    steps.length ? h("ol", { class: "steps" }, steps.map((step) => h("li", {}, served(step, views)))) : empty("The statement reads no stored rows."),
    explanation.strategy ? h("p", { class: "note" }, explanation.strategy, explanation.reason ? `: ${explanation.reason}` : "") : null,
    explanation.ran ? h("p", {}, `It ran in ${explanation.ran.ms} ms and has ${plural(explanation.ran.rows, "row")}.`) : null,
    h("h2", {}, "Why no other view"),
    explanation.notes?.length
      ? h("ul", { class: "notes" }, explanation.notes.map((text) => h("li", {}, text)))
      : empty(views.size ? "Views cover all joins." : "There is no join that a view could cover."),
    explanation.rewritten && explanation.rewritten !== explanation.sql
      ? [h("h2", {}, "Rewritten over views"), h("pre", { tabindex: "0" }, explanation.rewritten)] : null,
    h("details", {}, h("summary", {}, "The plan as text"), h("pre", { tabindex: "0" }, explanation.text)),
  ];
}

function served(step, views) {
  const kind = views.has(step.source) ? "view" : "relation";
  return [
    h("a", { href: `#/schema/${encodeURIComponent(step.source)}` }, step.source),
    h("span", { class: `tag ${kind}` }, kind),
    h("div", { class: "note" },
      `${step.access} ${step.layout}`, step.condition ? `, where ${step.condition}` : "",
      step.join ? `, ${step.join}` : "", step.order ? `, ${step.order}` : "",
      step.rows == null ? "" : `; about ${plural(step.rows, "row")}`,
      step.read ? `; read ${plural(step.read.rows, "row")} in ${step.read.ms} ms` : ""),
  ];
}
