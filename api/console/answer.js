// Answers with rows, read while they arrive. Numbers stay the digits that the server sent: a number
// of JavaScript has fewer.

const STRING_OR_NUMBER = /"(?:[^"\\]+|\\.)*"|-?\d[\d.eE+-]*/g;

/** The value of a JSON text, with all numbers as texts. */
export function exactJson(text) {
  return JSON.parse(text.replace(STRING_OR_NUMBER, (found) => (found[0] === '"' ? found : `"${found}"`)));
}

const HEAD = '"rows":[';

/** Reads one document {"columns": […], "rows": […], …} from its pieces. */
export class AnswerReader {
  columns = null;
  #text = "";
  #at = 0;
  #depth = 0;
  #inString = false;
  #done = false;

  /** The rows that are complete after this piece. */
  feed(piece) {
    this.#text += piece;
    if (this.columns === null && !this.#readHead()) return [];
    return this.#done ? [] : this.#readRows();
  }

  /** The members behind the rows, or null if the document is cut. */
  tail() {
    if (!this.#done) return null;
    return JSON.parse(`{${this.#text.replace(/^\s*,/, "")}`);
  }

  #readHead() {
    const at = this.#text.indexOf(HEAD);
    if (at < 0) return false;
    this.columns = JSON.parse(`${this.#text.slice(0, at).replace(/,\s*$/, "")}}`).columns;
    this.#text = this.#text.slice(at + HEAD.length);
    return true;
  }

  #readRows() {
    const text = this.#text;
    let i = this.#at, complete = 0;
    for (; i < text.length; i += 1) {
      const c = text.charCodeAt(i);
      if (this.#inString) {
        if (c === 92) i += 1; // a backslash, and what it escapes
        else if (c === 34) this.#inString = false;
      } else if (c === 34) this.#inString = true;
      else if (c === 91) this.#depth += 1;
      else if (c === 93) {
        this.#depth -= 1;
        if (this.#depth === 0) complete = i + 1;
        if (this.#depth < 0) { this.#done = true; break; }
      }
    }
    const rows = complete ? exactJson(`[${text.slice(0, complete).replace(/^\s*,/, "")}]`) : [];
    this.#text = text.slice(this.#done ? i + 1 : complete);
    this.#at = this.#done ? 0 : i - complete;
    return rows;
  }
}

/** A value as text; "" for NULL. Arrays are written as PostgreSQL writes them. */
export function shownValue(value) {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return `{${value.map(element).join(",")}}`;
  return String(value);
}

function element(value) {
  if (value === null) return "NULL";
  if (Array.isArray(value)) return shownValue(value);
  const text = String(value);
  return text === "" || /[{}",\\\s]|^null$/i.test(text) ? `"${text.replace(/["\\]/g, "\\$&")}"` : text;
}

/** Are the values of this SQL type numbers, which are aligned at the right? */
export const isNumeric = (type) => /^(SMALLINT|INTEGER|BIGINT|DECIMAL|NUMERIC|REAL|DOUBLE)\b(?!.*\[)/.test(type);

/** A row of CSV. NULL is an empty field, and the empty text is "" in quotes, as /v1/load reads it. */
export function csvRow(values) {
  return `${values.map((value) => {
    if (value === null) return "";
    const text = shownValue(value);
    return text === "" || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }).join(",")}\r\n`;
}
