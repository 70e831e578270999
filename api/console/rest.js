// Requests to the REST interface. The API key is in sessionStorage, and is sent in a header only.

const KEY = "hornbeam.key";
const known = new EventTarget();

/** Events: "needed" when the server refuses a request without a valid key. */
export const keyEvents = known;
export const currentKey = () => sessionStorage.getItem(KEY);
export const keepKey = (key) => sessionStorage.setItem(KEY, key);
export const forgetKey = () => sessionStorage.removeItem(KEY);

/** An error of the server (RFC 9457), or of the connection to it. */
export class Problem extends Error {
  constructor(document, status = 0) {
    super(document.detail || `The server answers with status ${status}.`);
    Object.assign(this, { ...document, status });
  }
}

/** The response to a request. Raises Problem; an abort by `signal` raises AbortError. */
export async function send(method, path, { body, accept = "application/json", signal, headers = {} } = {}) {
  const key = currentKey();
  const all = { Accept: accept, ...headers };
  if (key) all.Authorization = `Bearer ${key}`;
  if (body !== undefined) all["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(new URL(path, document.baseURI), {
      method, headers: all, signal, cache: "no-store", credentials: "same-origin", redirect: "error",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ detail: "The node does not answer.", cure: "Look whether it runs, and whether this machine reaches it.", code: "no-answer" });
  }
  if (response.ok) return response;
  const found = new Problem(await document_of(response), response.status);
  if (response.status === 401) known.dispatchEvent(new CustomEvent("needed", { detail: found }));
  throw found;
}

async function document_of(response) {
  try {
    return await response.json();
  } catch {
    return {};
  }
}

export const get = async (path, options) => (await send("GET", path, options)).json();
export const post = async (path, body, options) => (await send("POST", path, { ...options, body })).json();

/** The texts of a response as they arrive. */
export async function* texts(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** The JSON documents of a response with one per line. Raises Problem for a line with an error. */
export async function* lines(response) {
  let rest = "";
  for await (const text of texts(response)) {
    const parts = (rest + text).split("\n");
    rest = parts.pop();
    for (const part of parts.filter(Boolean)) yield checked(JSON.parse(part));
  }
  if (rest.trim()) yield checked(JSON.parse(rest));
}

function checked(line) {
  if (line.error) throw new Problem(line.error, line.error.status);
  return line;
}
