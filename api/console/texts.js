// Numbers, times and sizes as people read them.

const NUMBER = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** A whole number with separators of thousands; "–" if it is not known. */
export const count = (n) => (n == null || Number.isNaN(n) ? "–" : NUMBER.format(n));

/** A rate or measure with about three digits. */
export function measure(n) {
  if (n == null || !Number.isFinite(n)) return "–";
  if (n === 0) return "0";
  if (Math.abs(n) >= 100) return NUMBER.format(n);
  return n.toFixed(Math.abs(n) >= 10 ? 1 : 2);
}

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];

/** Bytes with a unit of 1000. */
export function bytes(n) {
  if (n == null || Number.isNaN(n)) return "–";
  let unit = 0;
  while (n >= 1000 && unit < UNITS.length - 1) { n /= 1000; unit += 1; }
  return `${unit === 0 ? n : measure(n)} ${UNITS[unit]}`;
}

/** A duration in seconds, with the unit that fits. */
export function duration(seconds) {
  if (seconds == null || !Number.isFinite(seconds)) return "–";
  if (seconds < 1) return `${measure(seconds * 1000)} ms`;
  if (seconds < 120) return `${measure(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** The local date and time of milliseconds since the epoch, on one line. */
export function moment(ms) {
  const pad = (n) => String(n).padStart(2, "0");
  const at = new Date(ms);
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}\u00a0${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

/** "1 view", "2 views". */
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
