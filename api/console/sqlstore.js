// Statements that were run, and the text in the editor. They stay in this tab, as the API key does.

const HISTORY = "hornbeam.statements", DRAFT = "hornbeam.draft";
const MOST = 100, LONGEST = 10_000;

/** [{sql, at}], the newest first. */
export function statements() {
  try {
    return JSON.parse(sessionStorage.getItem(HISTORY)) ?? [];
  } catch {
    return [];
  }
}

export function remember(sql) {
  if (sql.length > LONGEST) return;
  const others = statements().filter((each) => each.sql !== sql);
  sessionStorage.setItem(HISTORY, JSON.stringify([{ sql, at: Date.now() }, ...others].slice(0, MOST)));
}

export const forgetStatements = () => sessionStorage.removeItem(HISTORY);
export const draft = () => sessionStorage.getItem(DRAFT) ?? "";
export const keepDraft = (text) => (text.length <= 10 * LONGEST ? sessionStorage.setItem(DRAFT, text) : undefined);
