// The page Overview: is all well, and how much does the node do?

import { concerns } from "./concerns.js";
import { empty, fill, h, problem, table } from "./dom.js";
import { mean, rate, samples, total } from "./metrics.js";
import { get, send } from "./rest.js";
import { sparkline } from "./sparkline.js";
import { bytes, count, duration, measure, moment, plural } from "./texts.js";

const EVERY_MS = 2_000;
const KEPT = 150;

const RATES = [
  { title: "Queries a second", of: (a, b) => rate(a, b, "hornbeam_query_seconds_count") },
  { title: "Time of a query", of: (a, b) => mean(a, b, "hornbeam_query_seconds") * 1000, unit: "ms", idle: "no query" },
  { title: "Commits a second", of: (a, b) => rate(a, b, "hornbeam_transactions_committed_total") },
  { title: "Aborts a second", of: (a, b) => rate(a, b, "hornbeam_transactions_aborted_total") },
  { title: "Waiting for a lock", of: (a, b) => total(b.all, "hornbeam_locks_waiting") },
  { title: "Age of the snapshot", of: (a, b) => total(b.all, "hornbeam_watermark_lag_seconds"), unit: "s" },
];
const history = RATES.map(() => []);
let previous = null;

export function overview() {
  const verdict = h("section", { class: "verdict", "aria-live": "polite" }, h("p", {}, "Asking the node …"));
  const rates = h("section", { class: "tiles", "aria-label": "Rates" });
  const details = h("div", { class: "columns" });
  const stop = new AbortController();
  const look = async () => {
    try {
      const [status, text] = await Promise.all([
        get("v1/status", { signal: stop.signal }),
        send("GET", "metrics", { accept: "text/plain", signal: stop.signal }).then((r) => r.text()),
      ]);
      note({ at: Date.now(), all: samples(text) });
      show(verdict, judged(status));
      fill(rates, RATES.map(tile));
      show(details, panels(status));
    } catch (error) {
      if (error.name === "AbortError") return;
      show(verdict, [problem(error)]);
      if (error.status === 401) return;
    }
    if (!stop.signal.aborted) timer = setTimeout(look, EVERY_MS);
  };
  let timer = setTimeout(look, 0);
  return {
    title: "Overview",
    element: h("div", {}, h("h1", {}, "Overview"), verdict, rates, details),
    close() { stop.abort(); clearTimeout(timer); },
  };
}

/** Replace the children only if their text changes, so that a selection and the focus stay. */
function show(element, children) {
  const fresh = h("div", {}, children);
  if (element.textContent !== fresh.textContent) fill(element, ...fresh.childNodes);
}

function note(reading) {
  RATES.forEach(({ of }, i) => {
    history[i].push(previous === null ? NaN : of(previous, reading));
    if (history[i].length > KEPT) history[i].shift();
  });
  previous = reading;
}

function judged(status) {
  const found = concerns(status);
  if (!found.length) return [h("p", { class: "well" }, "All is well.")];
  return [
    h("p", { class: "unwell" }, `${plural(found.length, "thing needs", "things need")} your attention.`),
    h("ul", { class: "concerns" }, found.map(({ text, cure }) => h("li", {}, text, h("span", { class: "cure" }, cure)))),
  ];
}

function tile({ title, unit, idle }, i) {
  const now = history[i].at(-1);
  const known = Number.isFinite(now);
  return h("div", { class: "tile" },
    h("h2", {}, title),
    h("p", { class: "figure" }, known ? measure(now) : "–",
      h("span", { class: "unit" }, known ? (unit ?? "") : history[i].length > 1 ? (idle ?? "") : "measuring")),
    sparkline(history[i], KEPT));
}

function panels(status) {
  return [facts(status), members(status), stored(status), refreshed(status), built(status), lastVerified(status)].filter(Boolean);
}

const panel = (title, ...children) => h("section", { class: "panel" }, h("h2", {}, title), children);

function facts(status) {
  const rows = [
    ["Up for", duration(status.uptime_s)],
    ["Schema version", count(status.catalog_version)],
    ["Log", `${bytes(status.log.bytes)} in ${plural(status.log.segments, "segment")}`],
    ["Locks", `${count(status.locks.held)} held, ${count(status.locks.waiting)} waiting`],
    ["Since the start", `${plural(status.transactions.committed, "commit")}, ${plural(status.transactions.aborted, "abort")}, ${plural(status.queries, "query", "queries")}`],
    ["Reader of rows", status.speedups],
    status.data ? ["Data", status.data] : null,
    status.loading.length ? ["Initial load of", status.loading.join(", ")] : null,
    ...status.locks.hot.map(({ lock, waiting }) => ["Hot lock", `${lock}: ${count(waiting)} waiting`]),
  ].filter(Boolean);
  return panel("This node", h("dl", {}, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))));
}

function members({ nodes }) {
  if (!nodes) return null;
  const rows = nodes.members.map((member) => [
    member.address, member.name === nodes.name ? "this node" : "", count(member.slots), count(member.work_per_minute)]);
  return panel("Nodes", table("Nodes", [
    { title: "Address" }, { title: "Asked" }, { title: "Slots", number: true }, { title: "Work a minute", number: true }], rows));
}

function stored({ views }) {
  const names = Object.keys(views);
  if (!names.length) return panel("Views", empty("There is no view yet. Plan a schema with a workload to get some."));
  return panel("Views", table("Views", [{ title: "View" }, { title: "State" }],
    names.map((name) => [h("a", { href: `#/schema/${encodeURIComponent(name)}` }, name), state(views[name])])));
}

/** The state of a view, with a mark of its kind. */
export const state = (text) => h("span", { class: `state ${text.replaceAll(" ", "-")}` }, text);

function refreshed({ groups }) {
  if (!groups?.length) return null;
  const rows = groups.map((group) => [
    group.name, group.views.join(", "), group.lag_s === null ? "not built" : duration(group.lag_s),
    group.last ? duration(group.last.seconds) : "–", group.node ?? "–"]);
  return panel("Live and deferred views", table("Groups", [
    { title: "Group" }, { title: "Views" }, { title: "Age", number: true }, { title: "Last batch", number: true }, { title: "Kept by" }], rows));
}

function built({ builds }) {
  const open = builds.filter((build) => !build.finished);
  if (!open.length) return null;
  return panel("Builds", open.map((build) => h("div", { class: "build" },
    h("span", {}, build.name), progress(build), build.error ? h("span", { class: "cure" }, build.error) : null)));
}

/** The progress of a build. */
export function progress(build) {
  const done = build["elsewhere"] ? build.scanned : Math.max(build.rows, build.scanned);
  return [
    h("progress", { max: build.total || null, value: build.total ? Math.min(done, build.total) : null, "aria-label": `Build of ${build.name}` }),
    h("span", { class: "number" }, `${count(done)} of ${build.total ? count(build.total) : "?"} rows`),
  ];
}

function lastVerified({ verified }) {
  if (!verified.length) return panel("Last verification", empty("Nothing was verified since this node has started. The page Schema verifies views."));
  const newest = Math.max(...verified.map((last) => last.snapshot));
  const rows = verified.filter((last) => last.differences).map((last) => [last.name, last.kind, count(last.differences), count(last.repaired)]);
  const differences = verified.reduce((sum, last) => sum + last.differences, 0);
  return panel("Last verification",
    h("p", {}, `${moment(newest)}: ${plural(verified.length, "object")}, ${plural(verified.reduce((n, l) => n + l.rows, 0), "row")}, ${plural(differences, "difference")}.`),
    rows.length ? table("Differences", [{ title: "Name" }, { title: "Kind" }, { title: "Differences", number: true }, { title: "Repaired", number: true }], rows) : null);
}
