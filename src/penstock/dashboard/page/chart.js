// One chart over time, drawn in SVG, of the series that `series(points)` returns.

import { el, svg } from "./dom.js";
import { clock, round } from "./format.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [58, 8, 8, 18];
const HEIGHT = 168;

/**
 * title, format; series(points) gives [{name, of, style, area, band, step, legend}], where `of` and
 * `band` take a point; `stacked` stacks areas; `empty` is the text shown without data.
 */
export class Chart {
  constructor(
    store,
    {
      title,
      format,
      series,
      stacked = false,
      ticks = (top) => round(top, 3),
      empty,
      extra,
      moved,
      dispensable = false,
    },
  ) {
    Object.assign(this, { store, title, format, series, stacked, ticks, moved, dispensable });
    this.legend = el("ul", { class: "legend" });
    this.svg = svg("svg", { role: "img", "aria-label": title });
    this.none = el("p", { class: "empty", hidden: true }, empty);
    this.cursor = svg("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM });
    this.root = el(
      "section",
      { class: "card chart", "aria-label": title },
      el("div", { class: "card-head" }, el("h2", {}, title), extra ?? null),
      this.legend,
      this.svg,
      this.none,
    );
    for (const name of ["pointerdown", "pointermove"]) this.svg.addEventListener(name, (event) => this.#pointed(event));
    new ResizeObserver(() => this.draw()).observe(this.root);
  }

  #pointed(event) {
    if (event.type === "pointermove" && event.buttons === 0) return;
    const box = this.svg.getBoundingClientRect();
    const [from, to] = this.store.range;
    const part = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
    this.moved(from + Math.min(1, Math.max(0, part)) * (to - from));
  }

  draw() {
    const [from, to] = this.store.range;
    const points = this.store.points.filter((point) => point.x >= from);
    const all = this.series(points);
    const wide = this.svg.clientWidth || this.root.clientWidth - 30;
    const heights = this.#heights(points, all);
    const some = heights.some((column) => column.some((value) => value !== null));
    this.svg.style.display = some ? "" : "none";
    this.none.hidden = some;
    this.root.hidden = !some && this.dispensable;
    this.legend.hidden = !some;
    this.shown = some ? all : [];
    if (!some || wide <= LEFT + RIGHT) return;
    const top = Math.max(...heights.flat().filter((value) => value !== null), 0);
    const marks = this.ticks(top);
    const high = marks.at(-1) || 1;
    this.x = (at) => LEFT + ((at - from) / (to - from)) * (wide - LEFT - RIGHT);
    const y = (value) => HEIGHT - BOTTOM - (value / high) * (HEIGHT - TOP - BOTTOM);
    this.svg.setAttribute("viewBox", `0 0 ${wide} ${HEIGHT}`);
    this.svg.replaceChildren(
      ...marks.flatMap((value) => [
        svg("line", { class: "grid", x1: LEFT, x2: wide - RIGHT, y1: y(value), y2: y(value) }),
        svg("text", { class: "tick", x: LEFT - 6, y: y(value) + 3.5, "text-anchor": "end" }, this.format(value)),
      ]),
      ...times(from, to).map((at) =>
        svg(
          "text",
          {
            class: "tick",
            x: Math.min(this.x(at), wide - 16),
            y: HEIGHT - 4,
            "text-anchor": at === from ? "start" : "middle",
          },
          clock(at),
        ),
      ),
      ...points
        .filter((point, n) => n && point.first)
        .map((point) =>
          svg("line", { class: "again", x1: this.x(point.x), x2: this.x(point.x), y1: TOP, y2: HEIGHT - BOTTOM }),
        ),
      ...this.#paths(points, all, heights, y),
      this.cursor,
    );
    this.move();
  }

  /** The value of each series at each point; of a stacked area, its upper edge. */
  #heights(points, all) {
    const base = points.map(() => 0);
    return all.map((one) =>
      points.map((point, n) => {
        const value = one.band ? one.band(point)?.[1] : one.of(point);
        if (value === null || value === undefined) return null;
        if (!this.stacked || !one.area) return value;
        base[n] += value;
        return base[n];
      }),
    );
  }

  #paths(points, all, heights, y) {
    const made = [];
    const below = points.map(() => 0);
    all.forEach((one, n) => {
      const upper = heights[n];
      const lower = one.band
        ? points.map((point) => one.band(point)?.[0] ?? null)
        : this.stacked
          ? [...below]
          : points.map(() => 0);
      if (one.area || one.band) {
        for (const run of runs(upper)) {
          const there = run.map((i) => [this.x(points[i].x), y(upper[i])]);
          const back = run.map((i) => [this.x(points[i].x), y(lower[i] ?? 0)]).reverse();
          made.push(
            svg("path", {
              class: `area ${this.stacked ? "stack" : ""} ${one.style}`,
              d: `${trace(there, one.step)}L${trace(back, one.step, true).slice(1)}Z`,
            }),
          );
        }
      }
      if (!one.band && !(this.stacked && one.area)) {
        const d = runs(upper)
          .map((run) =>
            trace(
              run.map((i) => [this.x(points[i].x), y(upper[i])]),
              one.step,
            ),
          )
          .join("");
        made.push(svg("path", { class: `line ${one.style}`, d }));
      }
      if (this.stacked && one.area)
        upper.forEach((value, i) => {
          if (value !== null) below[i] = value;
        });
    });
    return made;
  }

  /** Move the cursor to the moment shown, with the values at that moment. */
  move() {
    const point = this.store.at();
    if (!point || !this.x || !this.shown?.length) return;
    const at = this.x(Math.max(this.store.x, this.store.range[0]));
    this.cursor.setAttribute("x1", at);
    this.cursor.setAttribute("x2", at);
    const items = this.shown
      .filter((one) => one.legend !== false)
      .map((one) =>
        el(
          "li",
          {},
          svg(
            "svg",
            { viewBox: "0 0 14 8", "aria-hidden": true },
            one.area && this.stacked
              ? svg("rect", { class: `area stack ${one.style}`, width: 14, height: 8, rx: 2 })
              : svg("line", { class: `line ${one.style}`, x1: 0, x2: 14, y1: 4, y2: 4 }),
          ),
          `${one.name} `,
          el("b", {}, this.format(one.of(point) ?? null)),
        ),
      );
    this.legend.replaceChildren(...items);
    this.svg.setAttribute(
      "aria-label",
      `${this.title} at ${clock(this.store.x)}: ${items.map((item) => item.textContent).join(", ")}`,
    );
  }
}

/** Runs of indices without a gap. */
function runs(values) {
  const found = [];
  values.forEach((value, n) => {
    if (value === null) return;
    if (n && values[n - 1] !== null && found.length) found.at(-1).push(n);
    else found.push([n]);
  });
  return found;
}

function trace(points, step, backwards = false) {
  let path = "";
  points.forEach(([x, y], n) => {
    const [px, py] = points[n - 1] ?? [];
    const corner =
      n && step ? (backwards ? `L${px.toFixed(1)},${y.toFixed(1)}` : `L${x.toFixed(1)},${py.toFixed(1)}`) : "";
    path += `${n ? corner : ""}${n ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`;
  });
  return path;
}

/** Round times for the x axis. */
function times(from, to) {
  const step =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400].find(
      (n) => (to - from) / n <= 5,
    ) ?? 86400 * Math.ceil((to - from) / 86400 / 5);
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}
