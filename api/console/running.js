// Statements are sent, and their rows are handed on while they arrive.

import { AnswerReader, csvRow, exactJson } from "./answer.js";
import { Problem, post, send, texts } from "./rest.js";

/** The most rows that a grid shows. Downloads have all. */
export const MOST_ROWS = 100_000;
const ARROW = "application/vnd.apache.arrow.stream";

/** Run a query. `begin(columns)` and `add(rows)` get the result. Returns {rows, cut, snapshot, …}. */
export async function runQuery(body, signal, { begin, add }) {
  const response = await send("POST", "v1/query", { body, signal });
  const reader = new AnswerReader();
  let begun = false, rows = 0;
  for await (const text of texts(response)) {
    const fresh = reader.feed(text);
    if (!begun && reader.columns) { begun = true; begin(reader.columns); }
    add(fresh.slice(0, MOST_ROWS - rows));
    rows += fresh.length;
    if (rows > MOST_ROWS) return { rows: MOST_ROWS, cut: true };
  }
  return { rows, cut: false, ...ended(reader) };
}

function ended(reader) {
  const tail = reader.tail();
  if (tail === null) throw new Problem({ detail: "The connection ended in the middle of the answer.", cure: "Run the statement again.", code: "cut" });
  if (tail.error) throw new Problem(tail.error, tail.error.status);
  return tail;
}

/** Run a statement that writes, as one transaction. The same `idempotencyKey` may be sent again: it
 * takes effect once. */
export async function runWrite(statement, idempotencyKey, signal) {
  const response = await send("POST", "v1/transactions", {
    body: { statements: [statement] }, signal, headers: { "Idempotency-Key": idempotencyKey },
  });
  return exactJson(await response.text());
}

export function freshKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export const explain = (body, signal) => post("v1/explain", body, { signal });

/** A file with all rows of a query: csv, json or arrow. */
export async function file(body, format, signal) {
  if (format === "arrow") return (await send("POST", "v1/query", { body, accept: ARROW, signal })).blob();
  const response = await send("POST", "v1/query", { body, signal });
  const reader = new AnswerReader();
  const parts = [];
  let headed = false;
  for await (const text of texts(response)) {
    const rows = reader.feed(text);
    if (format === "json") { parts.push(text); continue; }
    if (!headed && reader.columns) { headed = true; parts.push(csvRow(reader.columns.map(({ name }) => name))); }
    parts.push(rows.map(csvRow).join(""));
  }
  ended(reader);
  return new Blob(parts, { type: format === "json" ? "application/json" : "text/csv" });
}

/** The value of a parameter as it is typed: JSON, or else text. A number that JavaScript would change
 * is sent as its digits. */
export function parameterValue(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "number" && String(value) !== text.trim() ? text.trim() : value;
  } catch {
    return text;
  }
}
