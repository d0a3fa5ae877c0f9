// Controls that send requests to a running flow, and the answers.

import { ask, Failed, hasToken, keepToken } from "./api.js";
import { $, el, say } from "./dom.js";

const POLICY = { on: "On", advise: "Advise", off: "Off" };

export class Asking {
  constructor(store) {
    this.store = store;
    this.busy = false;
    this.shape = null;
  }

  /** Rebuild only if other requests are possible, so that no input is lost while typing. */
  draw() {
    const { status, chosen, newest } = this.store;
    const pipeline = newest?.pipelines.find((one) => one.operators.includes(chosen));
    const offers = newest?.offers?.[pipeline?.name];
    const shape = JSON.stringify([
      status.phase,
      status.running,
      status.mode,
      newest?.paused,
      chosen,
      pipeline?.parallelism,
      pipeline?.name,
      offers,
      hasToken(),
      this.busy,
    ]);
    if (shape === this.shape) return;
    this.shape = shape;
    const room = $("ask");
    const before = keyed(room);
    const focused = document.activeElement?.dataset?.keep;
    room.replaceChildren(...this.#parts(pipeline, offers).filter(Boolean));
    const now = keyed(room);
    for (const [key, one] of before) {
      const typed = one.value !== one.defaultValue && now.has(key);
      if (typed && one.tagName === "INPUT") now.get(key).value = one.value;
    }
    if (before.has(focused)) (now.get(focused) ?? room).focus();
  }

  #parts(pipeline, offers) {
    const { status, newest } = this.store;
    if (!status.running) {
      const words = {
        starting: "The flow has not started; it takes requests from its first turn on.",
        ending: "The flow is ending and takes no more requests.",
      };
      return [el("p", { class: "empty" }, words[status.phase] ?? "This run is over and takes no requests.")];
    }
    if (!hasToken()) return [this.#token()];
    return [
      pipeline && offers
        ? this.#scale(pipeline, offers)
        : el("p", { class: "quiet" }, "Select an operator in the graph to scale, split or fuse its pipeline."),
      pipeline && offers ? this.#shape(pipeline, offers) : null,
      this.#executors(),
      row(
        "Flow",
        this.#button(newest?.paused ? "Resume" : "Pause", () => (newest?.paused ? "resume" : "pause")),
      ),
      row(
        "Policy",
        el(
          "div",
          { class: "joined", role: "group", "aria-label": "Policy" },
          Object.entries(POLICY).map(([mode, name]) =>
            this.#button(name, () => `policy ${mode}`, { "aria-pressed": String(mode === status.mode) }),
          ),
        ),
      ),
      this.#free(),
    ];
  }

  #button(name, request, more = {}) {
    const busy = this.busy ? "true" : null; // aria-disabled keeps the keyboard focus
    const send = () => this.send(request());
    return el("button", { type: "button", "data-keep": name, "aria-disabled": busy, onclick: send, ...more }, name);
  }

  #scale(pipeline, { least, most }) {
    const input = el("input", {
      type: "number",
      id: "instances",
      "data-keep": `instances of ${pipeline.name}`,
      min: least,
      max: most,
      value: pipeline.parallelism,
    });
    const send = () => `${pipeline.name}=${input.value}`;
    input.addEventListener("keydown", (event) => event.key === "Enter" && this.send(send()));
    const step = (by) =>
      el(
        "button",
        {
          type: "button",
          "data-keep": by > 0 ? "more" : "less",
          "aria-label": by > 0 ? "One instance more" : "One instance less",
          onclick: () => {
            input.value = Math.max(least, Math.min(most ?? Infinity, Number(input.value) + by));
          },
        },
        by > 0 ? "+" : "−",
      );
    return row(
      el("label", { for: "instances" }, "Instances"),
      step(-1),
      input,
      step(1),
      this.#button("Scale", send, { class: "main" }),
    );
  }

  #shape(pipeline, { split, fuse }) {
    const { chosen } = this.store;
    const cut = split.includes(chosen) ? this.#button(`Split before ${chosen}`, () => `split ${chosen}`) : null;
    const joins = fuse.map((other) => this.#button(`Fuse with ${other}`, () => `fuse ${pipeline.name} ${other}`));
    if (!cut && !joins.length)
      return row("Pipeline", el("span", { class: "quiet" }, "cannot be split here or fused with a neighbour"));
    return row("Pipeline", cut, ...joins);
  }

  #executors() {
    const input = el("input", { type: "number", id: "executors", "data-keep": "executors", min: 1, value: 1 });
    return row(
      el("label", { for: "executors" }, "Executors"),
      input,
      this.#button("Scale out", () => `scale-out ${input.value}`),
      this.#button("Scale in", () => `scale-in ${input.value}`),
    );
  }

  #free() {
    const input = el("input", {
      type: "text",
      class: "grow",
      "data-keep": "free",
      "aria-label": "Request as text",
      placeholder: "count=4, count.cadence=500ms",
    });
    input.addEventListener("keydown", (event) => event.key === "Enter" && this.send(input.value));
    return row(
      "Request",
      input,
      this.#button("Ask", () => input.value),
    );
  }

  #token() {
    const input = el("input", {
      type: "password",
      class: "grow",
      id: "token",
      "data-keep": "token",
      autocomplete: "off",
    });
    const take = () => {
      if (!input.value) return;
      keepToken(input.value);
      this.shape = null;
      this.draw();
    };
    input.addEventListener("keydown", (event) => event.key === "Enter" && take());
    return el(
      "div",
      {},
      el(
        "p",
        { class: "quiet" },
        "To send requests, open the address that was printed when the dashboard started, or enter its token.",
      ),
      row(el("label", { for: "token" }, "Token"), input, el("button", { type: "button", onclick: take }, "Use token")),
    );
  }

  async send(request) {
    if (this.busy) return;
    this.#tell(`Request: ${request}`, "");
    this.busy = true;
    this.draw();
    try {
      const answer = await ask(request);
      this.#tell(answer.message, "good");
    } catch (error) {
      if (error instanceof Failed && error.status === 401) sessionStorage.clear();
      this.#tell(
        error instanceof Failed ? error.message : "The dashboard cannot be reached; nothing was sent.",
        "bad",
      );
    }
    this.busy = false;
    this.draw();
  }

  #tell(text, kind) {
    const room = $("answer");
    room.hidden = false;
    room.className = `answer ${kind}`;
    say(room, text);
  }
}

/** Focusable elements by their key. */
const keyed = (room) => new Map([...room.querySelectorAll("[data-keep]")].map((one) => [one.dataset.keep, one]));

function row(word, ...parts) {
  return el("div", { class: "row" }, typeof word === "string" ? el("span", { class: "word" }, word) : word, ...parts);
}
