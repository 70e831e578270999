// The page Keys, for administrators: API keys are listed, created and revoked.

import { ask, confirmed, empty, fill, h, problem, table } from "./dom.js";
import { get, post, send } from "./rest.js";
import { moment } from "./texts.js";

const DAY_S = 86_400;
const VALID = [["for ever", null], ["1 day", DAY_S], ["30 days", 30 * DAY_S], ["1 year", 365 * DAY_S]];
const ROLES = [["reader", "reads"], ["writer", "also writes"], ["admin", "also changes the schema and keys"]];

export function keysPage() {
  const page = new KeysPage();
  page.load();
  return { title: "Keys", element: page.element, close: () => page.stop.abort() };
}

class KeysPage {
  stop = new AbortController();

  constructor() {
    this.said = h("div", { role: "status" });
    this.list = h("div", {}, h("p", {}, "Asking the node …"));
    this.create = h("button", { type: "button", class: "primary", onclick: () => this.add() }, "Create a key");
    this.element = h("div", {}, h("div", { class: "titled" }, h("h1", {}, "API keys"), this.create), this.said, this.list);
  }

  async load() {
    try {
      const keys = await get("v1/keys", { signal: this.stop.signal });
      fill(this.list, keys.length ? this.#table(keys) : empty("There is no key yet. While authentication is off, every client that reaches the port may do everything; the setting authentication = keys switches it on."));
    } catch (error) {
      if (error.name === "AbortError") return;
      this.create.hidden = true;
      fill(this.list, problem(error));
    }
  }

  #table(keys) {
    const rank = (key) => (key.state === "active" ? 0 : 1);
    const sorted = [...keys].sort((a, b) => rank(a) - rank(b) || b.created_ms - a.created_ms);
    return h("section", { class: "panel" }, table("API keys",
      [{ title: "Name" }, { title: "Id" }, { title: "Role" }, { title: "Grants" }, { title: "State" }, { title: "Created" }, { title: "Expires" }, { title: "" }],
      sorted.map((key) => [
        key.name, h("code", {}, key.id), key.role, grants(key.grants), h("span", { class: `state ${key.state === "active" ? "readable" : "ended"}` }, key.state),
        moment(key.created_ms), key.expires_ms ? moment(key.expires_ms) : "never",
        key.state === "active" ? h("button", { type: "button", class: "danger", "aria-label": `Revoke ${key.name}, ${key.id}`, onclick: () => this.revoke(key) }, "Revoke") : "",
      ])));
  }

  async add() {
    const made = await ask("Create a key", (close) => form(this.stop.signal, close));
    if (!made) return;
    await ask("The new key", (close) => [
      h("p", {}, `This is the only time that the key of ${made.name} is shown. Keep it where passwords are kept.`),
      h("pre", { class: "secret", tabindex: "0" }, made.key),
      h("div", { class: "actions" },
        h("button", { type: "button", onclick: (event) => navigator.clipboard?.writeText(made.key).then(() => { event.target.textContent = "Copied"; }) }, "Copy"),
        h("button", { type: "button", class: "primary", onclick: () => close() }, "I have kept it")),
    ]);
    this.load();
  }

  async revoke(key) {
    if (!(await confirmed(`Revoke ${key.name}?`, "This node refuses the key at once, and other nodes within seconds. It cannot be taken back.", "Revoke"))) return;
    try {
      await send("DELETE", `v1/keys/${key.id}`, { signal: this.stop.signal });
      fill(this.said, h("p", {}, `${key.name} (${key.id}) is revoked.`));
      this.load();
    } catch (error) {
      fill(this.said, problem(error));
    }
  }
}

function grants(given) {
  if (given === null) return "everything";
  const all = Object.entries(given).map(([name, grant]) => `${name}: ${grant}`);
  return all.length ? all.join(", ") : "nothing";
}

/** The fields of a new key. Closes with the answer, which has the key itself. */
function form(signal, close) {
  const said = h("div");
  const name = h("input", { id: "key-name", required: true, maxlength: 100, autocomplete: "off" });
  const role = h("select", { id: "key-role" }, ROLES.map(([value, text]) => h("option", { value }, `${value}: ${text}`)));
  const valid = h("select", { id: "key-valid" }, VALID.map(([text], i) => h("option", { value: i }, text)));
  const granted = h("textarea", { id: "key-grants", rows: 4, placeholder: "orders: write\ncustomer: read", spellcheck: "false", "aria-describedby": "grants-note" });
  const create = async (event) => {
    event.preventDefault();
    const seconds = VALID[valid.value][1];
    try {
      close(await post("v1/keys", { name: name.value, role: role.value, grants: parsed(granted.value), ...(seconds ? { valid_for_s: seconds } : {}) }, { signal }));
    } catch (error) {
      fill(said, problem(error));
    }
  };
  return h("form", { method: "dialog", onsubmit: create }, said,
    h("label", { for: "key-name" }, "Name: who will use it"), name,
    h("label", { for: "key-role" }, "Role"), role,
    h("label", { for: "key-valid" }, "Valid"), valid,
    h("label", { for: "key-grants" }, "Grants"), granted,
    h("p", { class: "note", id: "grants-note" }, "One relation or view a line, with read or write. Empty: everything."),
    h("div", { class: "actions" }, h("button", { type: "button", onclick: () => close() }, "Cancel"), h("button", { type: "submit", class: "primary" }, "Create")));
}

/** Grants from lines "name: read"; null without a line. The server refuses what it does not know. */
export function parsed(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  if (!lines.length) return null;
  return Object.fromEntries(lines.map((line) => {
    const at = line.lastIndexOf(":");
    return at < 0 ? [line, "read"] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  }));
}
