// The shell of the console: navigation, the API key, the colours, and the page that the address names.

import { ask, fill, h, problem } from "./dom.js";
import { jobsPage } from "./jobs.js";
import { keysPage } from "./keys.js";
import { overview } from "./overview.js";
import { planPage } from "./plan.js";
import { currentKey, forgetKey, get, keepKey, keyEvents } from "./rest.js";
import { schemaPage } from "./schema.js";
import { sqlPage } from "./sqlpage.js";
import { statementsPage } from "./statements.js";
import { transactionsPage } from "./transactions.js";

const PAGES = [
  { name: "overview", title: "Overview", letter: "o", open: overview },
  { name: "schema", title: "Schema", letter: "s", open: schemaPage },
  { name: "sql", title: "SQL", letter: "q", open: sqlPage },
  { name: "plan", title: "Plan", letter: "p", open: planPage },
  { name: "statements", title: "Statements", letter: "e", open: statementsPage },
  { name: "transactions", title: "Transactions", letter: "t", open: transactionsPage },
  { name: "jobs", title: "Jobs", letter: "j", open: jobsPage },
  { name: "keys", title: "Keys", letter: "k", open: keysPage },
];
const THEME = "hornbeam.theme";
const THEMES = ["system", "light", "dark"];
const LEADER_MS = 1_500;

const navigation = h("ul");
const main = h("main", { id: "main", tabindex: "-1" });
const keyButton = h("button", { type: "button", class: "quiet", onclick: () => askForKey() });
const themeButton = h("button", { type: "button", class: "quiet", onclick: nextTheme });
let shown = null;

/** The page in the address, its rest, and its parameters: #/sql?q=…, #/schema/orders. */
function address() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [name, ...rest] = path.split("/");
  return { name: name || PAGES[0].name, rest: rest.map(decodeURIComponent), parameters: new URLSearchParams(query) };
}

function route() {
  const at = address();
  const page = PAGES.find((each) => each.name === at.name) ?? PAGES[0];
  shown?.close();
  shown = page.open(at);
  document.title = `${shown.title} · Hornbeam`;
  fill(main, shown.element);
  fill(navigation, PAGES.map(({ name, title }) =>
    h("li", {}, h("a", { href: `#/${name}`, "aria-current": name === page.name ? "page" : null }, title))));
}

function askForKey(reason) {
  if (document.querySelector("dialog[open]")) return;
  const input = h("input", { id: "key", type: "password", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "key-note" });
  const said = h("div");
  const form = (close) => h("form", {
    method: "dialog",
    onsubmit: async (event) => {
      event.preventDefault();
      keepKey(input.value.trim());
      try {
        await get("v1/status?sizes=false");
        close(true);
      } catch (error) {
        if (error.status === 401) forgetKey();
        fill(said, problem(error));
        input.select();
      }
    },
  },
  said, h("label", { for: "key" }, "API key"), input,
  h("p", { id: "key-note", class: "note" }, "The key stays in this tab, and is sent to this server only. It is forgotten when the tab is closed."),
  h("div", { class: "actions" },
    currentKey() ? h("button", { type: "button", onclick: () => { forgetKey(); close(true); } }, "Forget the key") : null,
    h("button", { type: "submit", class: "primary" }, "Use the key")));
  if (reason) fill(said, problem(reason));
  ask("API key", form).then((changed) => { showKey(); if (changed) route(); });
}

const showKey = () => fill(keyButton, currentKey() ? "Change the key" : "Enter a key");

function nextTheme() {
  applyTheme(THEMES[(THEMES.indexOf(localStorage.getItem(THEME)) + 1) % THEMES.length]);
}

function applyTheme(wanted) {
  const theme = THEMES.includes(wanted) ? wanted : THEMES[0];
  localStorage.setItem(THEME, theme);
  document.documentElement.dataset.theme = theme;
  fill(themeButton, `Colours: ${theme}`);
}

// ---------------------------------------------------------------- keyboard

let leaderAt = -Infinity;

/** g and a letter open a page; ? shows the keys. Keys that people type into fields do nothing here. */
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog, [role=grid]")) return;
  const page = PAGES.find(({ letter }) => letter === event.key);
  if (event.key === "?") showKeys();
  else if (event.key === "g") leaderAt = event.timeStamp;
  else if (page && event.timeStamp - leaderAt < LEADER_MS) location.hash = `#/${page.name}`;
  else return;
  event.preventDefault();
}

function showKeys() {
  const rows = [
    ...PAGES.map(({ title, letter }) => [`g ${letter}`, `Open ${title}`]),
    ["Ctrl Enter", "Run the statement at the cursor"],
    ["Ctrl Shift Enter", "Explain it without running it"],
    ["Ctrl Space", "Complete a name"],
    ["Arrows, Enter", "In a result: move, and show a whole value"],
    ["Escape", "Close what is open; cancel a statement that runs"],
  ];
  ask("Keys", (close) => [
    h("dl", { class: "keys" }, rows.map(([keys, text]) => h("div", {}, h("dt", {}, keys.split(" ").map((k) => h("kbd", {}, k))), h("dd", {}, text)))),
    h("div", { class: "actions" }, h("button", { type: "button", class: "primary", onclick: () => close() }, "Close"))]);
}

function start() {
  const skip = h("button", { type: "button", class: "skip", onclick: () => main.focus() }, "Skip to the content");
  const header = h("header", {},
    h("a", { class: "mark", href: "#/overview", "aria-label": "Hornbeam, overview" }, h("img", { src: "console/mark.svg", alt: "", width: 20, height: 20 }), "Hornbeam"),
    h("nav", { "aria-label": "Pages" }, navigation),
    h("div", { class: "tools" }, keyButton, themeButton,
      h("button", { type: "button", class: "quiet", onclick: showKeys }, "Keyboard"),
      h("a", { class: "quiet", href: "docs" }, "REST interface")));
  fill(document.getElementById("app"), skip, header, main);
  applyTheme(localStorage.getItem(THEME));
  showKey();
  keyEvents.addEventListener("needed", (event) => askForKey(currentKey() ? event.detail : undefined));
  addEventListener("hashchange", route);
  document.addEventListener("keydown", onKey);
  route();
}

start();
