// The time bar: shows every decision, selects a moment, plays a run.

import { $, say, svg } from "./dom.js";
import { clock, day } from "./format.js";

const THUMB = 8; // px: half the thumb of a range input, where its track begins
const SHAPES = {
  changed: "M0,-6L4.5,3H-4.5Z",
  vetoed: "M0,-5L4,0L0,5L-4,0Z",
  advised: "M0,-5L4,0L0,5L-4,0Z",
  refused: "M-4,-4H4V4H-4Z",
  failed: "M-4,-4H4V4H-4Z",
};

export class Timeline {
  /** `go` shows a moment (a point or a decision), `follow` the newest one. */
  constructor(store, { go, follow, spanned }) {
    Object.assign(this, { store, go, follow });
    this.strip = $("strip");
    this.scrub = $("scrub");
    this.timer = 0;
    this.scrub.addEventListener("input", () => this.#scrubbed());
    this.scrub.addEventListener("keydown", (event) => this.#pressed(event));
    $("play").addEventListener("click", () => (this.timer ? this.pause() : this.#play()));
    $("follow").addEventListener("click", () => {
      this.pause();
      follow();
    });
    $("span").addEventListener("change", (event) => spanned(Number(event.target.value)));
    new ResizeObserver(() => this.draw()).observe(this.strip);
  }

  #scrubbed() {
    this.pause();
    const point = this.store.at(Number(this.scrub.value));
    if (point) this.go(point);
  }

  #pressed(event) {
    const { notable, points } = this.store;
    const [list, way] =
      {
        ArrowLeft: [points, -1],
        ArrowRight: [points, 1],
        ArrowDown: [points, -1],
        ArrowUp: [points, 1],
        PageUp: [notable, 1],
        PageDown: [notable, -1],
      }[event.key] ?? [];
    const to = list && this.store.beside(list, way);
    if (!list) return;
    event.preventDefault();
    this.pause();
    if (to) this.go(to);
  }

  #play() {
    if (!this.store.points.length) return;
    const end = this.store.points.at(-1).x;
    let x = this.store.x >= end - 0.5 ? this.store.range[0] : this.store.x;
    let before = performance.now();
    say($("play"), "Pause");
    const step = () => {
      const now = performance.now();
      x += ((now - before) / 1000) * Number($("speed").value);
      before = now;
      const point = this.store.at(x);
      this.go(point, x);
      if (x >= this.store.points.at(-1).x) {
        this.pause();
        if (this.store.status.running) this.follow();
      }
    };
    this.timer = setInterval(step, 120);
    step();
  }

  pause() {
    clearInterval(this.timer);
    this.timer = 0;
    say($("play"), "Play");
  }

  draw() {
    const wide = this.strip.clientWidth;
    const [from, to] = this.store.range;
    const x = (at) => THUMB + ((at - from) / (to - from)) * (wide - 2 * THUMB);
    this.strip.setAttribute("viewBox", `0 0 ${wide} 20`);
    const shown = this.store.notable.filter((entry) => entry.x >= from);
    this.strip.replaceChildren(
      svg("line", { class: "rail", x1: THUMB, x2: wide - THUMB, y1: 12, y2: 12 }),
      ...shown.map((entry) =>
        svg(
          "path",
          {
            class: `pin mark-${entry.kind}`,
            "data-turn": entry.turn,
            d: SHAPES[entry.kind],
            transform: `translate(${x(entry.x).toFixed(1)} 12)`,
            onclick: () => {
              this.pause();
              this.go(entry);
            },
          },
          svg("title", {}, `${clock(entry.at)} ${entry.kind}: ${entry.title}`),
        ),
      ),
    );
    this.scrub.min = from;
    this.scrub.max = to;
    this.move();
  }

  move() {
    const { store } = this;
    if (document.activeElement !== this.scrub || !this.scrub.matches(":active")) this.scrub.value = store.x;
    const last = store.points.at(-1);
    const whole = last ? ` of ${clock(last.x)}` : "";
    say($("clock"), store.frame ? `${clock(store.x)}${whole}` : "–");
    $("clock").title = day(store.frame?.time);
    this.scrub.setAttribute("aria-valuetext", `${clock(store.x)}${whole}`);
    const live = store.status.running;
    const button = $("follow");
    say(button, live ? "Live" : "To the end");
    button.setAttribute("aria-pressed", String(live && store.following));
  }
}
