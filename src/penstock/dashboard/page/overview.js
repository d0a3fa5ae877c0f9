// The tiles, the table of pipelines, and the legend of the graph.

import { $, el, say } from "./dom.js";
import { count, rate, share, size, span } from "./format.js";

const TILES = ["Offered", "Sustained", "Latency", "Instances", "Waiting", "State"];

export class Overview {
  constructor(store) {
    this.store = store;
    this.tiles = TILES.map((name) => {
      const [value, unit, note] = [el("span", {}), el("span", { class: "unit" }), el("p", { class: "note" })];
      const tile = el("div", { class: "tile" }, el("h3", {}, name), el("p", { class: "value" }, value, unit), note);
      $("tiles").append(tile);
      return { tile, value, unit, note };
    });
    $("key").append(
      ...["size: share of the work", "width: rows per second", "box: pipeline", "dot: instance, darker if busier"].map(
        (text) => el("span", {}, text),
      ),
    );
  }

  draw() {
    const { frame } = this.store;
    const point = this.store.at();
    const shown = frame && point ? figuresOf(frame, point) : TILES.map(() => ["–", "", ""]);
    shown.forEach(([value, unit, note, bad], n) => {
      const one = this.tiles[n];
      say(one.value, value);
      say(one.unit, value === "–" ? "" : unit);
      say(one.note, note);
      one.tile.classList.toggle("bad", Boolean(bad));
    });
    $("table").replaceChildren(frame ? table(frame) : el("p", { class: "empty" }, "Nothing measured yet."));
  }
}

function figuresOf(frame, point) {
  const short = point.offered !== null && point.sustained !== null && point.sustained < 0.9 * point.offered;
  const waiting = Object.values(point.backlog);
  const state = Object.values(point.state);
  const rows = frame.pipelines.reduce((sum, one) => sum + (one.state_rows ?? 0), 0);
  const instances = Object.values(point.instances).reduce((sum, n) => sum + n, 0);
  const many = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
  return [
    [rate(point.offered), "rows/s", known(frame.totals.offered, "so far")],
    [rate(point.sustained), "rows/s", `${count(frame.totals.ingested)} taken in`, short],
    latency(frame),
    [
      count(instances),
      "",
      [many(point.executors, "executor"), known(frame.load, "at work", share)].filter(Boolean).join(", "),
    ],
    [waiting.length ? count(waiting.reduce((sum, n) => sum + n, 0)) : "–", "rows", longest(frame)],
    [
      state.length ? size(state.reduce((sum, n) => sum + n, 0)) : "–",
      "",
      state.length ? `${count(rows)} rows` : "no state measured",
    ],
  ];
}

const known = (value, words, as = count) => (value === null ? "" : `${as(value)} ${words}`);

/** The constraint closest to its bound, or furthest beyond it. */
function latency(frame) {
  const all = Object.values(frame.latency);
  if (!all.length) return ["–", "", "no latency constraint"];
  const known = all.filter((one) => one.mean !== null && one.mean !== undefined);
  if (!known.length) return ["–", "", `bound ${span(all[0].bound)}`];
  const worst = known.reduce((one, other) => (other.mean / other.bound > one.mean / one.bound ? other : one));
  const missed = worst.mean > worst.bound;
  return [
    span(worst.mean),
    missed ? "mean, missed" : "mean",
    `p95 ${span(worst.p95)}, bound ${span(worst.bound)}`,
    missed,
  ];
}

function longest(frame) {
  const worst = frame.pipelines.reduce(
    (one, other) => ((other.backlog_seconds ?? -1) > (one?.backlog_seconds ?? -1) ? other : one),
    null,
  );
  if (!worst || worst.backlog_seconds === null || worst.backlog_seconds === undefined) return "";
  return worst.backlog_seconds > 0 ? `${span(worst.backlog_seconds)} before ${worst.name}` : "no backlog";
}

const COLUMNS = [
  ["pipeline", (one) => one.operators.join(" · ")],
  ["instances", (one) => count(one.parallelism)],
  ["in/s", (one) => rate(one.rate_in)],
  ["out/s", (one) => rate(one.rate_out)],
  ["work", (one) => share(one.utilisation ?? one.busy), (one) => one.level],
  ["waiting", (one) => count(one.backlog_rows)],
  ["wait", (one) => span(one.wait)],
  ["batch", (one) => span(one.batch_seconds)],
  ["state", (one) => size(one.state_bytes)],
  [
    "skew",
    (one) => (one.skew === null || one.skew === undefined ? "–" : one.skew.toFixed(2)),
    (one) => (one.skewed ? "warm" : ""),
  ],
];

function table(frame) {
  return el(
    "table",
    {},
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        COLUMNS.map(([name]) => el("th", { scope: "col" }, name)),
      ),
    ),
    el(
      "tbody",
      {},
      frame.pipelines.map((one) =>
        el(
          "tr",
          { "data-pipeline": one.name },
          COLUMNS.map(([, of, style]) => el("td", { class: style?.(one), title: of(one) }, of(one))),
        ),
      ),
    ),
  );
}
