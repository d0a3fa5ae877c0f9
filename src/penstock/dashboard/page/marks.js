// Labels of pipelines and edges in the graph: instances, load, rates, backlogs.

import { svg } from "./dom.js";
import { count, rate, share, span } from "./format.js";
import { width } from "./geometry.js";

const missing = (value) => value === null || value === undefined;

/** The number of instances of a pipeline, a dot for each if there is room, and its problems. */
export function instances(one, [left, top, , bottom], down) {
  const [x, y] = down ? [left + 72, top + 13] : [left + 10, top + 14];
  const perRow = down ? 4 : 11 - String(one.parallelism).length;
  const most = 2 * perRow;
  const from = x + 16 + 8 * String(one.parallelism).length;
  const place = (n) => ({ x: from + 9.4 * (n % perRow), y: y - 1 + 9 * Math.floor(n / perRow) });
  const shown = one.instances.slice(0, one.parallelism > most ? most - 2 : most);
  const rest = place(shown.length);
  const words = [{ hot: "bottleneck", warm: "busy" }[one.level], one.skewed && "skewed"].filter(Boolean);
  const tag = down ? { x: left + 72, y: bottom - 8 } : { x: left + 12, y: top - 5 };
  return [
    svg("text", { class: "times", x, y: y + 3 }, `×${one.parallelism}`),
    ...shown.map((dot, n) => instance(dot, place(n))),
    shown.length < one.parallelism
      ? svg("text", { class: "sub", x: rest.x - 4, y: rest.y + 3 }, `+${one.parallelism - shown.length}`)
      : null,
    words.length ? svg("text", { class: `tag ${one.skewed ? "skewed" : ""}`, ...tag }, words.join(", ")) : null,
  ];
}

function instance(dot, { x, y }) {
  const state = missing(dot.busy) ? "unknown" : dot.heavy ? "heavy" : "";
  const said = `instance ${dot.index}: ${count(dot.rows)} rows, ${share(dot.busy)} busy`;
  return svg(
    "circle",
    {
      class: `dot ${state}`,
      cx: x,
      cy: y,
      r: dot.heavy ? 4.2 : 3.4,
      "fill-opacity": state ? 1 : 0.25 + 0.75 * Math.min(1, dot.busy),
    },
    svg("title", {}, said),
  );
}

/** The line of an edge, as wide as its rate. */
export function flow(edge, path) {
  return svg("path", {
    class: `flow ${missing(edge.rate) ? "unknown" : ""}`,
    d: path,
    "stroke-width": width(edge.rate),
    "data-edge": `${edge.from}>${edge.to}`,
  });
}

/** The rate of an edge, and the backlog of its channel, if it has one. */
export function beside(edge, { middle: [x, y], end }, down) {
  const found = [];
  if (!missing(edge.rate)) {
    const at = down ? { x: x + 8, y: y + 4 } : { x, y: y - width(edge.rate) / 2 - 4 };
    const anchor = down ? "start" : "middle";
    found.push(svg("text", { class: "rate", ...at, "text-anchor": anchor }, `${rate(edge.rate)}/s`));
  }
  if (edge.channel?.backlog_rows) {
    const at = down ? [end[0] + 78, end[1] - 53] : [x, y + 16];
    found.push(waiting(edge.channel, ...at));
  }
  return found;
}

function waiting(channel, x, y) {
  const text = `${count(channel.backlog_rows)} waiting`;
  const wide = 12 + 6.3 * text.length;
  const many = channel.backlog_seconds > 1 ? "many" : "";
  return svg(
    "g",
    {},
    svg("title", {}, `${count(channel.backlog_rows)} rows, ${span(channel.backlog_seconds)} of work`),
    svg("rect", { class: `waiting-box ${many}`, x: x - wide / 2, y: y - 8, width: wide, height: 17, rx: 8.5 }),
    svg("text", { class: "waiting", x, y: y + 4, "text-anchor": "middle" }, text),
  );
}
