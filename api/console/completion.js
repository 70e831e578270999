// Completion of names in SQL: pure functions from a text, a position and a catalog.

import { KEYWORDS, tokens } from "./tokens.js";

const MOST = 50;
const PLAIN = /^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$/;

/** The catalog for completion from a document of GET /v1/schema: [{name, kind, columns}]. */
export function completionCatalog(schema) {
  const named = (kind) => ({ name, columns }) => ({ name, kind, columns: columns.map((c) => ({ name: c.name, type: c.type })) });
  return [
    ...schema.relations.map(named("relation")),
    ...schema.views.map(named("view")),
    ...schema.plain_views.map(named("view")),
  ];
}

/** What may be written at `position`: {start, items: [{text, kind, detail}]}. `start` is where the
 * text begins that an item replaces. */
export function completions(text, position, catalog) {
  const before = tokens(text.slice(0, position));
  const last = before.at(-1);
  if (last && (last.kind === "comment" || last.kind === "string" || last.kind === "number")) return { start: position, items: [] };
  const word = last && ["word", "keyword", "quoted"].includes(last.kind) ? last : null;
  const start = word ? word.start : position;
  const prefix = (word?.text ?? "").replace(/^"/, "").toLowerCase();
  const owner = ownerOf(before, word);
  const sources = sourcesOf(tokens(text), catalog);
  const items = owner === null ? anywhere(before, word, sources, catalog) : columnsOf(owner, sources, catalog);
  const fitting = items.filter(({ text: t }) => t.toLowerCase().startsWith(prefix) && t.toLowerCase() !== prefix);
  return { start, items: distinct(fitting).slice(0, MOST) };
}

const meaningful = (all) => all.filter(({ kind }) => kind !== "space" && kind !== "comment");

/** The name before a dot at the end of `before`, or null. */
function ownerOf(before, word) {
  const rest = meaningful(word ? before.slice(0, -1) : before);
  return rest.at(-1)?.text === "." && rest.length > 1 ? bare(rest.at(-2).text) : null;
}

const bare = (text) => (text.startsWith('"') ? text.slice(1, -1).replaceAll('""', '"') : text.toLowerCase());

/** The relations and views in a statement by the names that columns can be qualified with. */
function sourcesOf(all, catalog) {
  const byName = new Map(catalog.map((each) => [each.name, each]));
  const found = new Map();
  const rest = meaningful(all);
  for (let i = 0; i < rest.length; i += 1) {
    let name = bare(rest[i].text), at = i + 1;
    if (rest[at]?.text === "." && rest[at + 1]) { name = `${name}.${bare(rest[at + 1].text)}`; at += 2; }
    const source = byName.get(name);
    if (!source || rest[i - 1]?.text === ".") continue;
    if (rest[at]?.text.toLowerCase() === "as") at += 1;
    const alias = rest[at];
    found.set(alias && ["word", "quoted"].includes(alias.kind) ? bare(alias.text) : name, source);
  }
  return found;
}

function columnsOf(owner, sources, catalog) {
  const source = sources.get(owner) ?? catalog.find(({ name }) => name === owner);
  if (source) return columnItems(source);
  const within = catalog.filter(({ name }) => name.startsWith(`${owner}.`));
  return within.map(({ name, kind }) => ({ text: quoted(name.slice(owner.length + 1)), kind, detail: kind }));
}

const columnItems = (source) => source.columns.map(({ name, type }) => ({ text: quoted(name), kind: "column", detail: `${type} of ${source.name}` }));

const AFTER_TABLE = new Set(["from", "join", "into", "update", "table"]);

function anywhere(before, word, sources, catalog) {
  const rest = meaningful(word ? before.slice(0, -1) : before);
  const stored = catalog.map(({ name, kind }) => ({ text: quoted(name), kind, detail: kind }));
  if (AFTER_TABLE.has(rest.at(-1)?.text.toLowerCase())) return stored;
  const columns = [...new Set(sources.values())].flatMap(columnItems);
  const keywords = word ? [...KEYWORDS].map((text) => ({ text: cased(text, word.text), kind: "keyword", detail: "" })) : [];
  return [...columns, ...stored, ...keywords];
}

const cased = (keyword, typed) => (typed === typed.toLowerCase() ? keyword : keyword.toUpperCase());
const quoted = (name) => (PLAIN.test(name) && !KEYWORDS.has(name) ? name : `"${name.replaceAll('"', '""')}"`);

function distinct(items) {
  const known = new Set();
  return items.filter(({ text }) => !known.has(text) && known.add(text));
}
