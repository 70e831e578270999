// The schema as a graph: relations in the order of their trees, foreign keys as lines, and views.
// `layout` is pure; `graph` draws it.

import { s } from "./dom.js";

const WIDTH = 190, HEIGHT = 30, ACROSS = 250, DOWN = 42, MARGIN = 8;

/** Where each relation and view stands: {nodes: [{name, kind, x, y}], edges: [{from, to, kind}],
 * width, height}. Children stand right of their parents, and views right of their last relation's
 * tree. Only edges whose both ends are known are drawn. */
export function layout(schema) {
  const names = new Set(schema.relations.map(({ name }) => name));
  const children = new Map([...names].map((name) => [name, []]));
  const roots = [];
  for (const { name } of schema.relations) {
    const parent = schema.trees[name]?.parent;
    if (parent && names.has(parent)) children.get(parent).push(name);
    else roots.push(name);
  }
  const nodes = [];
  let row = 0;
  const place = (name, depth) => {
    const node = { name, kind: "relation", x: depth, y: 0 };
    nodes.push(node);
    const first = row;
    for (const child of children.get(name)) place(child, depth + 1);
    if (row === first) row += 1;
    node.y = first;
  };
  for (const root of roots) place(root, 0);
  const deepest = Math.max(0, ...nodes.map(({ x }) => x));
  schema.views.forEach(({ name }, i) => nodes.push({ name, kind: "view", x: deepest + 1, y: i }));
  const known = new Map(nodes.map((node) => [node.name, node]));
  return {
    nodes, edges: edgesOf(schema, known),
    width: (deepest + (schema.views.length ? 1 : 0)) * ACROSS + WIDTH + 2 * MARGIN,
    height: Math.max(row, schema.views.length) * DOWN + 2 * MARGIN,
  };
}

function edgesOf(schema, known) {
  const edges = [];
  const add = (from, to, kind) => { if (known.has(from) && known.has(to)) edges.push({ from: known.get(from), to: known.get(to), kind }); };
  for (const relation of schema.relations) {
    const tree = schema.trees[relation.name];
    for (const key of relation.foreign_keys) add(key.parent, relation.name, tree?.foreign_key === key.name ? "tree" : "key");
  }
  for (const view of schema.views) for (const source of view.path) add(source, view.name, "view");
  return edges;
}

/** An SVG of the schema. `chosen` is the name of a relation or view, whose edges are marked.
 * `hrefOf` gives the address of each; null: nothing can be chosen. */
export function graph(schema, chosen, hrefOf = (name) => `#/schema/${encodeURIComponent(name)}`) {
  const { nodes, edges, width, height } = layout(schema);
  const x = (node) => MARGIN + node.x * ACROSS, y = (node) => MARGIN + node.y * DOWN;
  const near = new Set(edges.filter(({ from, to }) => from.name === chosen || to.name === chosen).flatMap(({ from, to }) => [from.name, to.name]));
  const line = ({ from, to, kind }) => {
    const forward = to.x > from.x;
    const x1 = x(from) + (forward ? WIDTH : WIDTH / 2), y1 = y(from) + (forward ? HEIGHT / 2 : HEIGHT);
    const x2 = forward ? x(to) : x(to) + WIDTH / 2, y2 = y(to) + (forward ? HEIGHT / 2 : 0);
    const bend = forward ? (x2 - x1) / 2 : 30;
    const path = forward ? `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`
      : `M${x(from) + WIDTH} ${y(from) + HEIGHT / 2}C${x(from) + WIDTH + 40} ${y(from) + HEIGHT / 2} ${x(to) + WIDTH + 40} ${y(to) + HEIGHT / 2} ${x(to) + WIDTH} ${y(to) + HEIGHT / 2}`;
    const marked = from.name === chosen || to.name === chosen;
    return s("path", { d: path, class: `edge ${kind} ${marked ? "marked" : ""}` });
  };
  const box = (node) => s(hrefOf ? "a" : "g", {
    href: hrefOf?.(node.name), role: hrefOf ? null : "img", class: `node ${node.kind} ${node.name === chosen ? "chosen" : near.has(node.name) ? "near" : ""}`,
    "aria-label": `${node.kind} ${node.name}`, "aria-current": node.name === chosen ? "true" : null,
  },
  s("title", {}, node.name),
  s("rect", { x: x(node), y: y(node), width: WIDTH, height: HEIGHT, rx: node.kind === "view" ? 15 : 4 }),
  s("text", { x: x(node) + 12, y: y(node) + HEIGHT / 2 + 4.500 }, shortened(node.name)));
  const ordered = [...edges].sort((a, b) => Number(a.from.name === chosen || a.to.name === chosen) - Number(b.from.name === chosen || b.to.name === chosen));
  return s("svg", { class: "graph", viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "Relations and views" },
    ordered.map(line), nodes.map(box));
}

const LONGEST = 25;
const shortened = (name) => (name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name);
