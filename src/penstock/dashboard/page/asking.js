// Buttons for what the command line can ask of a running flow, and the answers.

import { ask, Failed, hasToken, keepToken } from "./api.js";
import { $, el, say } from "./dom.js";

const POLICY = { on: "On", advise: "Advise", off: "Off" };

export class Asking {
  constructor(store) {
    this.store = store;
    this.busy = false;
    this.shape = null;
  }

  /** Made anew only when something else can be asked, so that no input is lost under the hands. */
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
    const typing = document.activeElement?.dataset?.keep;
    const kept = typing && document.activeElement.value;
    $("ask").replaceChildren(...this.#parts(pipeline, offers).filter(Boolean));
    const again = typing && $("ask").querySelector(`[data-keep="${typing}"]`);
    if (again) {
      again.value = kept;
      again.focus();
    }
  }

  #parts(pipeline, offers) {
    const { status, newest } = this.store;
    if (!status.running) {
      const words = {
        starting: "The flow has not begun; it can be asked from its first turn.",
        ending: "The flow is coming to its end and takes no more requests.",
      };
      return [el("p", { class: "empty" }, words[status.phase] ?? "This run is over; nothing can be asked of it.")];
    }
    if (!hasToken()) return [this.#token()];
    return [
      pipeline && offers
        ? this.#scale(pipeline, offers)
        : el("p", { class: "quiet" }, "Choose an operator in the picture to scale, split or fuse its pipeline."),
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
    return el("button", { type: "button", disabled: this.busy, onclick: () => this.send(request()), ...more }, name);
  }

  #scale(pipeline, { least, most }) {
    const input = el("input", {
      type: "number",
      id: "instances",
      "data-keep": "instances",
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
      return row("Pipeline", el("span", { class: "quiet" }, "cannot be split here, nor fused with a neighbour"));
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
      "aria-label": "A request in words",
      placeholder: "count=4, count.cadence=500ms",
    });
    input.addEventListener("keydown", (event) => event.key === "Enter" && this.send(input.value));
    return row(
      "Words",
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
        "To ask for something, open the address that was printed when the dashboard started, or give its token.",
      ),
      row(el("label", { for: "token" }, "Token"), input, el("button", { type: "button", onclick: take }, "Use it")),
    );
  }

  async send(request) {
    if (this.busy) return;
    this.#tell(`Asked for: ${request}`, "");
    this.busy = true;
    this.draw();
    try {
      const answer = await ask(request);
      this.#tell(answer.message, "good");
    } catch (error) {
      if (error instanceof Failed && error.status === 401) sessionStorage.clear();
      this.#tell(
        error instanceof Failed ? error.message : "The dashboard cannot be reached; nothing was asked.",
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

function row(word, ...parts) {
  return el("div", { class: "row" }, typeof word === "string" ? el("span", { class: "word" }, word) : word, ...parts);
}
