// The graph of the dataflow: operators as circles sized by cost, edges by rate, pipelines as boxes,
// instances as dots. Built once for a dataflow, then updated for every moment.

import { el, svg } from "./dom.js";
import { count, cut, rate, share, span } from "./format.js";
import { BIG, Geometry, radius } from "./geometry.js";
import { beside, flow, instances } from "./marks.js";

const LEAST = 0.79; // smallest scale at which names can be read
const GLYPHS = {
  source: "M-5,0H4M0,-4L4,0L0,4",
  sink: "M-5,-3V4H5V-3M0,-6V1M-3,-2L0,1L3,-2",
  keyed: "M-5,-4H5M-5,0H5M-5,4H5",
  global: "M0,-5A5,5 0 1 1 -0.1,-5",
};

export class Graph {
  constructor(room, chosen) {
    this.room = room;
    this.chosen = chosen;
    this.head = null;
    this.frame = null;
    this.selected = null;
    this.whole = false;
    this.fit = el("button", { type: "button", class: "plain", hidden: true, "aria-pressed": "false" }, "Whole");
    this.fit.addEventListener("click", () => {
      this.whole = !this.whole;
      this.fit.setAttribute("aria-pressed", String(this.whole));
      this.#build();
    });
    room.previousElementSibling.append(this.fit);
    new ResizeObserver(() => this.#resized()).observe(room);
  }

  show(head) {
    this.head = head;
    this.#build();
  }

  update(frame, selected) {
    [this.frame, this.selected] = [frame, selected];
    if (this.svg && frame) this.#turn();
  }

  #resized() {
    const room = this.room.clientWidth;
    if (this.head && this.geometry && room !== this.built) this.#build();
  }

  #build() {
    const { layout, dataflow } = this.head;
    if (!layout) {
      this.room.replaceChildren(
        el(
          "p",
          { class: "empty" },
          `${count(dataflow.operators.length)} operators are too many to draw; see the table of pipelines.`,
        ),
      );
      return;
    }
    this.#span();
    this.built = this.room.clientWidth;
    this.geometry = new Geometry(layout, this.built);
    const { width: wide, height } = this.geometry;
    const fitting = Math.min(1, this.built / wide);
    const scale = this.whole ? fitting : Math.max(LEAST, fitting);
    this.fit.hidden = fitting >= LEAST;
    this.svg = svg("svg", {
      viewBox: `0 0 ${wide} ${height}`,
      width: wide * scale,
      height: height * scale,
      role: "group",
      "aria-label": `The dataflow ${dataflow.name}`,
    });
    this.hulls = svg("g");
    this.lines = svg("g");
    this.marks = svg("g");
    this.centres = Object.fromEntries(
      Object.entries(layout.operators).map(([name, { layer, row }]) => [name, this.geometry.at(layer, row)]),
    );
    this.routes = new Map(
      layout.edges.map((edge) => {
        const first = layout.operators[edge.from].layer;
        return [key(edge), edge.rows.map((row, n) => this.geometry.at(first + n, row))];
      }),
    );
    this.nodes = new Map(dataflow.operators.map((one) => [one.name, this.#operator(one)]));
    this.svg.append(this.hulls, this.lines, ...this.#inOrder().map((name) => this.nodes.get(name).group), this.marks);
    this.room.replaceChildren(this.svg);
    this.#reachable(this.selected ?? this.#inOrder()[0]);
    if (this.frame) this.#turn();
  }

  /** Give a long dataflow the whole width of the page. */
  #span() {
    const card = this.room.parentNode;
    card.classList.remove("long");
    const { width: wide } = new Geometry(this.head.layout, this.room.clientWidth);
    card.classList.toggle("long", wide * LEAST > this.room.clientWidth);
  }

  #inOrder() {
    const place = this.head.layout.operators;
    return Object.keys(place).sort((a, b) => place[a].layer - place[b].layer || place[a].row - place[b].row);
  }

  #operator(one) {
    const [x, y] = this.centres[one.name];
    const down = this.geometry.way.down;
    const [textX, nameY, anchor] = down ? [x + BIG + 8, y + 4, "start"] : [x, y + BIG + 15, "middle"];
    const parts = {
      ring: svg("circle", { class: "ring", cx: x, cy: y }),
      body: svg("circle", { class: "body", cx: x, cy: y }),
      core: svg("circle", { class: "core", cx: x, cy: y }),
      sub: svg("text", { class: "sub", x: textX, y: nameY + 14, "text-anchor": anchor }),
    };
    const glyph =
      GLYPHS[one.state] && svg("path", { class: "glyph", d: GLYPHS[one.state], transform: `translate(${x} ${y})` });
    const name = svg(
      "text",
      { class: "name", x: textX, y: nameY, "text-anchor": anchor },
      cut(one.name, down ? 13 : 17),
    );
    const group = svg(
      "g",
      {
        class: "operator",
        role: "button",
        tabindex: -1,
        "data-name": one.name,
        onclick: () => this.#choose(one.name),
        onkeydown: (event) => this.#pressed(event, one.name),
      },
      svg("title", {}, one.name),
      svg("path", { class: "hit", d: this.geometry.cell([x, y]) }),
      parts.ring,
      parts.body,
      parts.core,
      glyph,
      name,
      parts.sub,
    );
    return { group, ...parts, state: one.state };
  }

  #choose(name) {
    this.#reachable(name);
    this.chosen(this.selected === name ? null : name);
  }

  /** One operator is in the tab order; arrow keys lead to the others. */
  #reachable(name) {
    for (const [other, node] of this.nodes) node.group.setAttribute("tabindex", other === name ? 0 : -1);
  }

  #pressed(event, name) {
    if (event.key === "Enter" || event.key === " ") this.#choose(name);
    else if (event.key === "Escape") this.chosen(null);
    else {
      const way = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[event.key];
      const next = way && this.#towards(name, way);
      if (!next) return;
      this.#reachable(next);
      this.nodes.get(next).group.focus();
    }
    event.preventDefault();
  }

  /** The nearest operator in a direction. */
  #towards(name, [dx, dy]) {
    const [x, y] = this.centres[name];
    let best = null;
    let least = Infinity;
    for (const [other, [toX, toY]] of Object.entries(this.centres)) {
      const [along, aside] = [(toX - x) * dx + (toY - y) * dy, Math.abs((toX - x) * dy) + Math.abs((toY - y) * dx)];
      if (along > 1 && along + 2 * aside < least) [best, least] = [other, along + 2 * aside];
    }
    return best;
  }

  #turn() {
    const radii = Object.create(null);
    for (const one of this.frame.operators) radii[one.name] = this.#turnOperator(one);
    this.hulls.replaceChildren(...this.frame.pipelines.map((one) => this.#hull(one)));
    this.marks.replaceChildren();
    const lines = this.frame.edges.map((edge) => this.#edge(edge, radii));
    this.lines.replaceChildren(...lines.filter(Boolean));
  }

  #turnOperator({ name, cost, figures }) {
    const node = this.nodes.get(name);
    const r = radius(cost);
    node.body.setAttribute("r", r);
    node.core.setAttribute("r", r);
    node.ring.setAttribute("r", r + 5);
    const known = cost !== null;
    node.group.classList.toggle("unknown", !known);
    node.group.setAttribute("aria-pressed", String(name === this.selected));
    const said = known ? `${share(cost)} of the work` : "not measured";
    node.sub.textContent =
      cost && figures?.service ? `${span(figures.service)} · ${share(cost)}` : known ? share(cost) : "";
    node.group.setAttribute(
      "aria-label",
      `${name}, ${node.state}, ${said}, ${rate(figures?.rate_in)} rows per second in`,
    );
    return r;
  }

  #hull(one) {
    const inside = new Set(one.operators);
    const shapes = one.operators.map((name) => this.geometry.cell(this.centres[name]));
    for (const [name, places] of this.routes) {
      const [from, to] = JSON.parse(name);
      if (inside.has(from) && inside.has(to)) shapes.push(...this.geometry.bands(places));
    }
    const paths = (style) =>
      svg(
        "g",
        { class: style },
        shapes.map((d) => svg("path", { d })),
      );
    const first = this.#inOrder().find((name) => inside.has(name));
    const box = this.geometry.box(this.centres[first]);
    return svg(
      "g",
      { class: `pipeline ${one.level ?? ""}`, "data-pipeline": one.name },
      paths("hull-edge"),
      paths("hull"),
      instances(one, box, this.geometry.way.down),
    );
  }

  #edge(edge, radii) {
    const places = this.routes.get(key(edge));
    if (!places) return null;
    const line = this.geometry.line(places, radii[edge.from] + 2, radii[edge.to] + 2);
    this.marks.append(...beside(edge, line, this.geometry.way.down));
    return flow(edge, line.path);
  }
}

const key = (edge) => JSON.stringify([edge.from, edge.to]);
