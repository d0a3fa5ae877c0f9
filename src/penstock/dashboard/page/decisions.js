// Decisions with their reasons and numbers, newest first.

import { $, el, figures, say } from "./dom.js";
import { clock, count, figure, size, span } from "./format.js";

const STEP = 100; // decisions shown at first, and added at a time
const KINDS = { Changes: ["changed"], "Not applied": ["vetoed", "refused", "failed", "advised"], Kept: ["kept"] };

export class Decisions {
  constructor(store, go) {
    Object.assign(this, { store, go, most: STEP });
    this.shown = new Set(["Changes", "Not applied"]);
    this.items = new Map();
    $("kinds").append(
      ...Object.keys(KINDS).map((name) =>
        el(
          "button",
          {
            type: "button",
            "aria-pressed": String(this.shown.has(name)),
            onclick: (event) => this.#toggle(event.target, name),
          },
          name,
        ),
      ),
    );
  }

  #toggle(button, name) {
    if (!this.shown.delete(name)) this.shown.add(name);
    button.setAttribute("aria-pressed", String(this.shown.has(name)));
    this.draw();
  }

  draw() {
    const kinds = new Set([...this.shown].flatMap((name) => KINDS[name]));
    const chosen = this.store.entries.filter((entry) => kinds.has(entry.kind)).reverse();
    const list = chosen.slice(0, this.most).map((entry) => this.#item(entry));
    if (chosen.length > this.most) {
      list.push(
        el(
          "li",
          {},
          el(
            "button",
            {
              type: "button",
              onclick: () => {
                this.most += STEP;
                this.draw();
              },
            },
            `Show ${Math.min(STEP, chosen.length - this.most)} more of ${count(chosen.length)}`,
          ),
        ),
      );
    }
    if (!list.length)
      list.push(
        el(
          "li",
          { class: "empty" },
          this.store.entries.length ? "No decisions of this kind." : "No decisions yet.",
        ),
      );
    const room = $("list");
    const same = room.children.length === list.length && list.every((item, n) => room.children[n] === item);
    if (!same) room.replaceChildren(...list);
    this.move();
  }

  /** Reuse the element of an entry, so that it stays open; rebuild it if the entry changed. */
  #item(entry) {
    const known = this.items.get(entry.turn);
    const text = JSON.stringify(entry);
    if (known?.text === text) return known.item;
    const item = this.#made(entry, known?.item.firstChild.open ?? false);
    this.items.set(entry.turn, { text, item, entry });
    return item;
  }

  #made(entry, open) {
    const details = el(
      "details",
      { open },
      el(
        "summary",
        {},
        el("span", { class: "when" }, clock(entry.at)),
        el("span", { class: `kind ${entry.kind}` }, entry.kind),
        el("span", { class: "times" }, entry.times > 1 ? `${count(entry.times)} turns` : ""),
        el("span", { class: "what" }, arrows(entry.kind === "kept" ? entry.reason : entry.title)),
      ),
      el(
        "div",
        { class: "body" },
        entry.reason ? el("p", {}, arrows(entry.reason)) : null,
        ...entry.vetoes.map((veto) => el("p", {}, el("b", {}, `${veto.rule}: `), veto.reason)),
        Object.keys(entry.numbers).length
          ? [
              el("h3", { class: "part" }, "Numbers"),
              figures(Object.entries(entry.numbers).map(([name, value]) => [name, figure(value)])),
            ]
          : null,
        entry.change
          ? [
              el("h3", { class: "part" }, entry.change.settled ? "Cost" : "Cost so far"),
              cost(entry.change),
            ]
          : null,
        entry.x === null ? null : el("button", { type: "button", onclick: () => this.go(entry) }, "Show this moment"),
      ),
    );
    return el("li", { class: "decision", "data-turn": entry.turn, "data-kind": entry.kind }, details);
  }

  /** Highlight the decision of the moment shown. */
  move() {
    const { x, frame } = this.store;
    let now = null;
    for (const { item, entry } of this.items.values()) {
      item.classList.toggle("later", entry.x > x + 1e-3);
      const here = frame !== null && entry.turn <= frame.turn && frame.turn <= entry.last;
      item.classList.toggle("now", here);
      if (here) now = item;
    }
    const told = frame?.decision;
    say(
      $("current"),
      told
        ? `At ${clock(this.store.x)}: ${told.kind === "kept" ? "" : `${told.kind}, `}${told.reason || told.title}`
        : "",
    );
    if (now?.parentNode && !this.store.following) scrollInside($("list"), now);
  }
}

function scrollInside(room, item) {
  const [top, bottom] = [item.offsetTop - room.offsetTop, item.offsetTop - room.offsetTop + item.offsetHeight];
  if (top < room.scrollTop || bottom > room.scrollTop + room.clientHeight) room.scrollTop = top - 8;
}

const arrows = (text) => text.replaceAll("->", "→");

function cost(change) {
  const time = (ms) => (ms === null || ms === undefined ? null : span(ms / 1000));
  return figures([
    ["until applied", time(change.duration_ms)],
    ["without output", time(change.interruption_ms)],
    ["longest gap of a sink", time(change.sink_gap_ms)],
    ["usual gap", time(change.usual_gap_ms)],
    ...Object.entries(change.phases ?? {}).map(([name, ms]) => [`· ${name}`, time(ms)]),
    ["rows of state moved", change.state_rows_moved === null ? null : count(change.state_rows_moved)],
    ["state moved", change.state_bytes_moved === null ? null : size(change.state_bytes_moved)],
    ["keys moved", change.keys_moved === null ? null : `${(100 * change.keys_moved).toFixed(1)} %`],
    ["rows replayed", change.rows_replayed ? count(change.rows_replayed) : null],
    ["backlog left", change.backlog_left === null ? null : count(change.backlog_left)],
  ]);
}
