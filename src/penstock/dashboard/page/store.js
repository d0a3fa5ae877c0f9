// What the page knows of a run, and at which moment of it the page is.

const MOST = 6000; // points; above it every other one of the older half goes

export class Store {
  constructor() {
    this.points = [];
    this.entries = [];
    this.status = { phase: "starting", running: false };
    this.turn = 0;
    this.frame = null; // what is shown
    this.newest = null; // the newest there is
    this.following = true;
    this.x = 0; // the moment that is shown
    this.span = 0; // seconds to the end that charts show; 0: all
    this.chosen = null; // an operator
  }

  /** Take in what came; whether there was anything. */
  add(news) {
    this.status = news.status ?? this.status;
    const first = this.turn === 0;
    for (const point of news.points ?? []) {
      if (!this.points.length || point.turn > this.points.at(-1).turn) this.points.push(point);
    }
    for (const entry of news.entries ?? []) this.#put(entry);
    if (this.points.length > MOST) {
      const half = this.points.length >> 1;
      this.points = this.points.filter((_, n) => n >= half || n % 2 === 0);
    }
    const grown = news.turn > this.turn;
    this.turn = Math.max(this.turn, news.turn ?? 0);
    if (news.moment) this.newest = news.moment;
    if (this.following && this.newest) this.#show(this.newest);
    return grown || first;
  }

  #put(entry) {
    const at = this.entries.findLastIndex((one) => one.turn <= entry.turn);
    if (at >= 0 && this.entries[at].turn === entry.turn) this.entries[at] = entry;
    else this.entries.splice(at + 1, 0, entry);
  }

  #show(frame) {
    this.frame = frame;
    this.x = frame.x ?? this.x;
  }

  /** Look at a moment of before; `frame` is the flow then. */
  goTo(frame) {
    this.following = false;
    this.#show(frame);
  }

  follow() {
    this.following = true;
    if (this.newest) this.#show(this.newest);
  }

  /** From when to when charts reach. */
  get range() {
    const last = this.points.at(-1)?.x ?? 1;
    const first = this.points[0]?.x ?? 0;
    const from = this.span ? Math.max(first, last - this.span) : first;
    return [from, Math.max(last, from + 1)];
  }

  /** The point at a moment, or the last one before it. */
  at(x = this.x) {
    let [low, high] = [0, this.points.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.points[middle].x <= x + 1e-6) low = middle;
      else high = middle - 1;
    }
    return this.points[low] ?? null;
  }

  /** The neighbours of the moment among points or decisions. */
  beside(list, way) {
    const eps = 1e-3;
    return way > 0 ? list.find((one) => one.x > this.x + eps) : list.findLast((one) => one.x < this.x - eps);
  }

  get notable() {
    return this.entries.filter((one) => one.kind !== "kept" && one.x !== null);
  }
}
