// Events of the run, such as restarts and lost executors, newest first.

import { $, el } from "./dom.js";
import { clock, count } from "./format.js";

const MOST = 50; // events in the list

/** Fill the card of events; it is hidden while there are none. `visit` shows a moment. */
export function showEvents(store, visit) {
  const { events } = store;
  $("events").hidden = events.length === 0;
  const shown = events.slice(-MOST).reverse();
  $("event-count").textContent = events.length > MOST ? `last ${MOST} of ${count(events.length)}` : "";
  $("event-list").replaceChildren(
    ...shown.map((event) =>
      el(
        "li",
        { class: "event", "data-number": event.number },
        el("button", { type: "button", class: "plain", onclick: () => visit(store.at(event.x) ?? event) }, clock(event.x)),
        el("span", { class: `kind ${event.problem ? "failed" : ""}` }, event.kind),
        el("span", {}, event.pipeline ? `${event.pipeline}: ${event.text}` : event.text),
      ),
    ),
  );
}
