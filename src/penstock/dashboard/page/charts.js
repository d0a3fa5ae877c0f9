// The charts of the page and their series.

import { Chart } from "./chart.js";
import { el } from "./dom.js";
import { count, rate, round, roundSize, size, span } from "./format.js";

const COLOURS = 8;
const MOST = 8; // series of a chart; the smaller ones beyond that are merged

/** Gives every name a colour that stays the same while others come and go. */
class Palette {
  #known = new Map();

  of(name) {
    if (!this.#known.has(name)) this.#known.set(name, this.#known.size % COLOURS);
    return `s${this.#known.get(name)}`;
  }
}

const names = (points, part) => [...new Set(points.flatMap((point) => Object.keys(point[part])))];

/** One series for each name in a part of the points; of very many, the highest, and the rest merged. */
function parts(palette, points, part, more) {
  const all = names(points, part);
  const shown = all.length > MOST ? highest(all, points, part) : all;
  const series = shown.map((name) => ({
    name,
    of: (point) => point[part][name] ?? null,
    style: palette.of(name),
    ...more,
  }));
  const others = all.filter((name) => !shown.includes(name));
  const rest = (point) => {
    const there = others.map((name) => point[part][name]).filter((value) => value !== undefined && value !== null);
    if (!there.length) return null;
    return more.area ? there.reduce((sum, value) => sum + value, 0) : Math.max(...there);
  };
  const name = more.area ? `${others.length} others together` : `highest of ${others.length} others`;
  if (others.length) series.push({ name, of: rest, style: "others", ...more });
  return series;
}

function highest(all, points, part) {
  const top = new Map(all.map((name) => [name, Math.max(...points.map((point) => point[part][name] ?? 0))]));
  const ranked = [...all].sort((one, other) => top.get(other) - top.get(one)).slice(0, MOST - 1);
  return all.filter((name) => ranked.includes(name));
}

export class Charts {
  constructor(room, store, moved) {
    this.store = store;
    const palette = new Palette();
    this.constraint = el("select", { "aria-label": "Latency constraint", hidden: true, onchange: () => this.draw() });
    const make = (options) => new Chart(store, { moved, ...options });
    this.all = [
      make({
        title: "Throughput, rows per second",
        format: rate,
        empty: "No rates measured yet.",
        series: () => [
          { name: "offered", of: (point) => point.offered, style: "offered dashed" },
          { name: "sustained", of: (point) => point.sustained, style: "sustained", area: true },
        ],
      }),
      make({
        title: "Latency",
        format: span,
        extra: this.constraint,
        empty: "No latency measured: there is no constraint, or no output yet.",
        series: () => this.#latency(),
      }),
      make({
        title: "Instances and executors",
        format: count,
        stacked: true,
        ticks: (top) => round(top, 3, { whole: true }),
        empty: "No plan yet.",
        series: (points) => [
          ...parts(palette, points, "instances", { area: true, step: true }),
          { name: "executors", of: (point) => point.executors, style: "executors", step: true },
        ],
      }),
      make({
        title: "Backlog, rows",
        format: count,
        empty: "No backlog measured yet.",
        series: (points) => parts(palette, points, "backlog", {}),
      }),
      make({
        title: "State",
        format: size,
        stacked: true,
        ticks: roundSize,
        dispensable: true,
        empty: "No state measured.",
        series: (points) => parts(palette, points, "state", { area: true, step: true }),
      }),
    ];
    room.append(...this.all.map((chart) => chart.root));
  }

  #latency() {
    const name = this.constraint.value;
    const of = (n) => (point) => point.latency[name]?.[n] ?? null;
    const [bound, mean, p50, p95, p99] = [0, 1, 2, 3, 4].map(of);
    const band = (point) => (p50(point) === null ? null : [p50(point), p95(point)]);
    return [
      { name: "p50 to p95", of: p95, band, style: "latency", legend: false },
      { name: "mean", of: mean, style: "latency" },
      { name: "p50", of: p50, style: "latency thin dashed" },
      { name: "p95", of: p95, style: "latency thin" },
      { name: "p99", of: p99, style: "offered thin" },
      { name: "bound", of: bound, style: "bound dashed" },
    ];
  }

  /** Offer the latency constraints of a dataflow. */
  show(head) {
    const found = head.dataflow.constraints.map((one) => `${one.first}->${one.last}`);
    this.constraint.replaceChildren(...found.map((name) => el("option", { value: name }, name.replace("->", " → "))));
    this.constraint.hidden = found.length < 2;
  }

  draw() {
    for (const chart of this.all) chart.draw();
  }

  move() {
    for (const chart of this.all) chart.move();
  }
}
