// A small line of the newest values. The number next to it says the same to people who do not see it.

import { s } from "./dom.js";

const WIDTH = 160, HEIGHT = 36;

/** An SVG of `values`, the newest last; gaps are NaN. `most` is the number of values of a full line. */
export function sparkline(values, most) {
  const known = values.filter(Number.isFinite);
  const top = Math.max(...known, 1e-9);
  const x = (i) => WIDTH - ((values.length - 1 - i) * WIDTH) / (most - 1);
  const y = (value) => HEIGHT - 2 - (value / top) * (HEIGHT - 4);
  let path = "", pen = "M";
  values.forEach((value, i) => {
    if (!Number.isFinite(value)) { pen = "M"; return; }
    path += `${pen}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
  });
  return s("svg", { class: "sparkline", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true", preserveAspectRatio: "none" },
    s("path", { d: `M0 ${HEIGHT - 1}H${WIDTH}`, class: "base" }),
    path ? s("path", { d: path, class: "line" }) : null);
}
