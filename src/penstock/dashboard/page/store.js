// The state of the page: what is known of the run, and which moment is shown.

const MOST = 6000; // points; beyond that, every other point of the older half is dropped

export class Store {
  constructor() {
    this.points = [];
    this.entries = []; // decisions
    this.events = []; // of the run, such as restarts
    this.status = { phase: "starting", running: false };
    this.turn = 0;
    this.frame = null; // what is shown
    this.newest = null; // the newest frame
    this.following = true;
    this.x = 0; // the moment that is shown
    this.span = 0; // seconds before the end that charts show; 0 for all
    this.chosen = null; // an operator
  }

  /** Add an update from the server. Returns true if there is something new. */
  add(news) {
    this.status = news.status ?? this.status;
    const first = this.turn === 0;
    for (const point of news.points ?? []) {
      if (!this.points.length || point.turn > this.points.at(-1).turn) this.points.push(point);
    }
    for (const entry of news.entries ?? []) this.#put(entry);
    for (const event of news.events ?? []) if (event.number > this.event) this.events.push(event);
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

  /** Show an earlier moment; `frame` is the flow at that moment. */
  goTo(frame) {
    this.following = false;
    this.#show(frame);
  }

  follow() {
    this.following = true;
    if (this.newest) this.#show(this.newest);
  }

  /** Number of the last known event. */
  get event() {
    return this.events.at(-1)?.number ?? 0;
  }

  /** Start and end of the charts. */
  get range() {
    const last = this.points.at(-1)?.x ?? 1;
    const first = this.points[0]?.x ?? 0;
    const from = this.span ? Math.max(first, last - this.span) : first;
    return [from, Math.max(last, from + 1)];
  }

  /** The last point at or before a moment. */
  at(x = this.x) {
    let [low, high] = [0, this.points.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.points[middle].x <= x + 1e-6) low = middle;
      else high = middle - 1;
    }
    return this.points[low] ?? null;
  }

  /** The next or previous point or decision, seen from the moment shown. */
  beside(list, way) {
    const eps = 1e-3;
    return way > 0 ? list.find((one) => one.x > this.x + eps) : list.findLast((one) => one.x < this.x - eps);
  }

  get notable() {
    return this.entries.filter((one) => one.kind !== "kept" && one.x !== null);
  }
}
