// The page Jobs: builds, the initial load, and batches of live and deferred views, with their ends.

import { confirmed, empty, fill, h, problem, repeated, table } from "./dom.js";
import { progress } from "./overview.js";
import { get, post, send } from "./rest.js";
import { count, duration, moment } from "./texts.js";

const EVERY_MS = 2_000;

export const jobsPage = () => repeated("Jobs", new JobsPage());

class JobsPage {
  stop = new AbortController();
  timer = null;
  #shown = "";

  constructor() {
    this.said = h("div", { class: "upkeep", role: "status" });
    this.list = h("div", {}, h("p", {}, "Asking the node …"));
    this.element = h("div", {}, h("h1", {}, "Jobs"), this.said, this.list);
  }

  async look() {
    const { signal } = this.stop;
    clearTimeout(this.timer);
    try {
      const status = await get("v1/status", { signal });
      const load = status.loading.length ? await this.#load() : null;
      const found = JSON.stringify([status.builds, status.groups, status.loading, load]);
      if (found !== this.#shown) fill(this.list, this.#builds(status), this.#initialLoad(status, load), this.#groups(status));
      this.#shown = found;
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(this.list, problem(error));
      this.#shown = "";
      if (error.status === 401) return;
    }
    if (!signal.aborted) this.timer = setTimeout(() => this.look(), EVERY_MS);
  }

  /** The initial load with its rows; null if this key may not read it. */
  async #load() {
    try {
      return (await get("v1/loads", { signal: this.stop.signal })).load;
    } catch (error) {
      if (error.name === "AbortError" || error.status === 401) throw error;
      return null;
    }
  }

  #builds({ builds }) {
    const rows = builds.map((build) => [
      h("a", { href: `#/schema/${encodeURIComponent(build.name)}` }, build.name),
      build["elsewhere"] ? "Spark" : "the nodes",
      build.error ? h("span", { class: "unwell" }, build.error) : build.finished ? `${count(build.rows)} rows` : h("span", { class: "build" }, progress(build)),
      build.error ? "failed" : build.finished ? "finished" : "runs",
      build.finished || build.error ? "" : this.#button("Cancel", `Cancel the build of ${build.name}`, () => this.#cancelBuild(build)),
    ]);
    return panel("Builds of views and indexes", rows.length
      ? table("Builds", [{ title: "View or index" }, { title: "Built by" }, { title: "Progress" }, { title: "State" }, { title: "" }], rows)
      : empty("Nothing was built since this node has started."));
  }

  #initialLoad({ loading }, load) {
    if (!loading.length) return panel("Initial load", empty("No initial load is under way."));
    return panel("Initial load",
      table("Relations that are loaded", [{ title: "Relation" }, { title: "Rows", number: true }], loading.map((name) => [name, count(load?.rows[name])])),
      h("div", { class: "buttons" }, this.#button("Cancel the load", "Cancel the initial load", () => this.#act(
        "Cancel the initial load?", "Its tables are dropped, and the relations stay empty.", "Cancel the load", () => send("DELETE", "v1/loads"), "The load is cancelled."))));
  }

  #groups({ groups }) {
    if (groups === null) return panel("Live and deferred views", empty("The coordination service does not answer."));
    const rows = groups.map((group) => [
      group.name, group.views.join(", "), group.as_of ? moment(group.as_of) : "not built", duration(group.lag_s),
      group.under_way ? `a batch up to ${moment(group.under_way)}` : group.last ? `${count(group.last.rows)} rows in ${duration(group.last.seconds)}, by ${group.last.by || "another process"}` : "–",
      group.problem ? h("span", { class: "unwell" }, group.problem.message) : group.left ?? "",
      this.#button("Refresh now", `Refresh the group ${group.name}`, () => this.#refresh(group)),
    ]);
    return panel("Live and deferred views", rows.length
      ? table("Groups", [{ title: "Group" }, { title: "Views" }, { title: "Shows" }, { title: "Age", number: true }, { title: "Batch" }, { title: "Trouble" }, { title: "" }], rows)
      : empty("There is no live or deferred view that this key may read."));
  }

  #button = (text, label, onclick) => h("button", { type: "button", "aria-label": label, onclick }, text);

  #cancelBuild(build) {
    return this.#act(`Cancel the build of ${build.name}?`, "The view or index leaves the schema, and its tables are dropped. Applying the schema again plans it again.", "Cancel the build",
      () => send("DELETE", `v1/builds/${encodeURIComponent(build.name)}`), `The build of ${build.name} is cancelled.`);
  }

  #refresh(group) {
    return this.#act(`Refresh ${group.name}?`, "Its views then show everything that is committed now.", "Refresh",
      () => post(`v1/groups/${encodeURIComponent(group.name)}/refresh`), `${group.name} is refreshed.`);
  }

  async #act(title, text, action, work, done) {
    if (!(await confirmed(title, text, action))) return;
    try {
      await work();
      fill(this.said, h("p", {}, done));
      this.look();
    } catch (error) {
      fill(this.said, problem(error));
    }
  }
}

const panel = (title, ...children) => h("section", { class: "panel" }, h("h2", {}, title), children);
