// The metrics of a node in Prometheus's text format, and rates between two readings.

const LINE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** The samples of a text: [{name, labels, value}]. */
export function samples(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const match = line.startsWith("#") ? null : LINE.exec(line);
    if (!match) continue;
    const labels = Object.fromEntries([...(match[2] ?? "").matchAll(LABEL)].map((m) => [m[1], m[2]]));
    found.push({ name: match[1], labels, value: number(match[3]) });
  }
  return found;
}

const number = (text) => (text === "+Inf" ? Infinity : text === "-Inf" ? -Infinity : Number(text));

/** The sum of the samples of a name; NaN without one. */
export function total(all, name) {
  const values = all.filter((sample) => sample.name === name).map((sample) => sample.value);
  return values.length ? values.reduce((a, b) => a + b, 0) : NaN;
}

/** Growth a second of a counter between two readings {at, all}; NaN after a restart. */
export function rate(before, after, name) {
  const grown = total(after.all, name) - total(before.all, name);
  return grown < 0 ? NaN : (grown / (after.at - before.at)) * 1000;
}

/** The mean of a histogram's observations between two readings; NaN without one. */
export function mean(before, after, name) {
  const grown = (suffix) => total(after.all, name + suffix) - total(before.all, name + suffix);
  return grown("_sum") / grown("_count");
}
