// SQL in tokens: for colours, completion, and to find the statement at the cursor. The server parses.

const WORDS = `all alter analyze and any array as asc between bigint boolean both by bytea case cast check column
commit conflict constraint create cross current_date current_time current_timestamp date decimal default delete desc distinct do double
drop else end enum escape except exclude excluded exists explain extract false fetch filter first following for foreign from full
generated group grouping having identity ilike in index inner insert int integer intersect interval into is join key last lateral
leading left like limit materialized matched merge natural not nothing null nulls numeric offset on or order outer over partition
preceding precision primary range real recursive references returning right rollup row rows select set sets similar smallint some
table text then time timestamp to trailing true truncate unbounded union unique update using uuid values varchar verbose view when
where window with within without zone`;

/** The words that are coloured, and offered by completion. */
export const KEYWORDS = new Set(WORDS.split(/\s+/));

const TOKEN = /(?<space>\s+)|(?<comment>--[^\n]*|\/\*)|(?<string>'(?:[^']|'')*'?)|(?<quoted>"(?:[^"]|"")*"?)|(?<tag>\$(?:[A-Za-z_]\w*)?\$)|(?<parameter>\?|\$\d+|(?<!:):[A-Za-z_]\w*)|(?<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)|(?<word>[\p{L}_][\p{L}\p{N}_$]*)|(?<sign>::|[^])/gu;

/** The tokens of a text: {kind, text, start}. Together they are the whole text. */
export function tokens(text) {
  const found = [];
  TOKEN.lastIndex = 0;
  for (let match; (match = TOKEN.exec(text)) !== null;) {
    const start = match.index;
    let kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
    if (match[0] === "/*") TOKEN.lastIndex = commentEnd(text, TOKEN.lastIndex);
    if (kind === "tag") {
      const end = text.indexOf(match[0], TOKEN.lastIndex);
      TOKEN.lastIndex = end < 0 ? text.length : end + match[0].length;
      kind = "string";
    }
    const part = text.slice(start, TOKEN.lastIndex);
    if (kind === "word" && KEYWORDS.has(part.toLowerCase())) kind = "keyword";
    found.push({ kind, text: part, start });
  }
  return found;
}

/** The position after the comment that is open at `position`. Comments nest. */
function commentEnd(text, position) {
  const edge = /\/\*|\*\//g;
  edge.lastIndex = position;
  for (let level = 1; level > 0;) {
    const match = edge.exec(text);
    if (!match) return text.length;
    level += match[0] === "/*" ? 1 : -1;
  }
  return edge.lastIndex;
}

const matters = ({ kind }) => kind !== "space" && kind !== "comment";

/** The statement at a position of a text, without its semicolon: {sql, start}. Behind the last
 * semicolon it is the statement before it. */
export function statementAt(text, position) {
  const statements = [{ start: 0, end: text.length, empty: true }];
  for (const token of tokens(text)) {
    const open = statements.at(-1);
    if (token.text === ";") {
      open.end = token.start;
      statements.push({ start: token.start + 1, end: text.length, empty: true });
    } else if (matters(token)) open.empty = false;
  }
  const filled = statements.filter((each) => !each.empty);
  const found = filled.find(({ end }) => position <= end + 1) ?? filled.at(-1);
  if (!found) return { sql: "", start: 0 };
  const sql = text.slice(found.start, found.end);
  return { sql: sql.trim(), start: found.start + sql.length - sql.trimStart().length };
}

const WRITES = new Set(["insert", "update", "delete", "merge", "truncate"]);
const STATEMENTS = new Set([...WRITES, "select", "values", "table"]);

/** The kind of a statement: read, write, explain, or the first word of any other one. */
export function kindOf(sql) {
  const words = tokens(sql).filter(matters).map((token) => token.text.toLowerCase());
  const first = words.find((word) => word !== "(") ?? "";
  if (first === "with") return writesInWith(words) ? "write" : "read";
  if (WRITES.has(first)) return "write";
  return first === "explain" || !["select", "values", "table"].includes(first) ? first : "read";
}

/** Does a statement WITH … write, itself or in one of its parentheses? */
function writesInWith(words) {
  let depth = 0, main = "";
  for (const [i, word] of words.entries()) {
    if (word === "(") depth += 1;
    else if (word === ")") depth -= 1;
    else if (WRITES.has(word) && words[i - 1] === "(") return true;
    else if (depth === 0 && main === "" && STATEMENTS.has(word)) main = word;
  }
  return WRITES.has(main);
}

/** The number of `?`, or the names of `:name` in a statement. */
export function parametersOf(sql) {
  const found = tokens(sql).filter(({ kind }) => kind === "parameter").map(({ text }) => text);
  const names = [...new Set(found.filter((text) => text.startsWith(":")).map((text) => text.slice(1)))];
  const numbered = found.filter((text) => text.startsWith("$")).map((text) => Number(text.slice(1)));
  return { names, count: Math.max(found.filter((text) => text === "?").length, 0, ...numbered) };
}
