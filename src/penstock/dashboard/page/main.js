// The page: updates from the server go to the store, and from there to the parts.

import { enter, Failed, follow, get } from "./api.js";
import { Asking } from "./asking.js";
import { Charts } from "./charts.js";
import { Decisions } from "./decisions.js";
import { showEvents } from "./events.js";
import { showDetail } from "./detail.js";
import { $, el, say } from "./dom.js";
import { Graph } from "./graph.js";
import { clock, span } from "./format.js";
import { Overview } from "./overview.js";
import { Store } from "./store.js";
import { Timeline } from "./timeline.js";
import { theme } from "./theme.js";

const store = new Store();
let head = null;
let connected = true;
let ended = false; // the dashboard ended normally

const overview = new Overview(store);
const graph = new Graph($("graph"), (name) => {
  store.chosen = name;
  drawMoment();
});
const charts = new Charts($("charts"), store, (x) => {
  const point = store.at(x);
  timeline.pause();
  if (point) go(point);
});
const timeline = new Timeline(store, { go, follow: toEnd, spanned });
function visit(entry) {
  timeline.pause();
  go(entry);
}
const decisions = new Decisions(store, visit);
const asking = new Asking(store);

function drawMoment() {
  overview.draw();
  graph.update(store.frame, store.chosen);
  showDetail(store, head);
  asking.draw();
  decisions.move();
  charts.move();
  timeline.move();
}

function drawAll() {
  charts.draw();
  timeline.draw();
  decisions.draw();
  showEvents(store, visit);
  drawMoment();
  drawHead();
}

function drawHead() {
  const { phase, summary } = store.status;
  const badge = $("phase");
  const lost = !connected && !ended;
  badge.className = `badge ${lost ? "lost" : phase}`;
  say(badge, lost ? "connection lost" : phase);
  if (!head?.dataflow) {
    if (head) say($("about"), `${head.run_dir} · nothing measured yet`);
    return;
  }
  document.title = `${head.dataflow.name} · Penstock`;
  say($("flow"), head.dataflow.name);
  const exact =
    summary?.exact === true
      ? "result exact"
      : summary?.exact === false
        ? `result not exact: ${summary.exact_reason}`
        : null;
  say(
    $("about"),
    [head.engine && `on ${head.engine}`, head.policy && `policy ${head.policy}`, exact, head.run_dir]
      .filter(Boolean)
      .join(" · "),
  );
}

// --- moments: one request at a time; the last one requested is shown ----------------------------

let wanted = null;
let asked = false;

async function go(to, x = to.x) {
  store.following = false;
  store.x = x;
  wanted = to.turn;
  charts.move();
  timeline.move();
  if (asked) return;
  asked = true;
  while (wanted !== null && !store.following) {
    const turn = wanted;
    wanted = null;
    try {
      const frame = await get(`/api/moment?turn=${turn}`);
      if (frame && !store.following) {
        const at = store.x;
        store.goTo(frame);
        if (wanted !== null || Math.abs(at - frame.x) < 5) store.x = at;
      }
    } catch (error) {
      notice("moment", error instanceof Failed ? error.message : null, "bad");
    }
    drawMoment();
  }
  asked = false;
}

function toEnd() {
  store.follow();
  drawMoment();
}

function spanned(seconds) {
  store.span = seconds;
  drawAll();
}

// --- notices ------------------------------------------------------------------------------------

const notices = new Map();

function notice(name, text, kind = "") {
  const known = notices.get(name);
  if (!text) {
    known?.remove();
    notices.delete(name);
    return;
  }
  if (known?.firstChild.textContent === text) return;
  const made = el(
    "div",
    { class: `notice ${kind}`, "data-notice": name },
    el("span", {}, text),
    el("button", { type: "button", class: "plain", onclick: () => notice(name, null) }, "Close"),
  );
  if (known) known.replaceWith(made);
  else $("notices").append(made);
  notices.set(name, made);
}

// --- following ----------------------------------------------------------------------------------

async function begin() {
  const found = await get("/api/run");
  if (head?.dataflow && (found.run_dir !== head.run_dir || found.run !== head.run)) location.reload();
  head = found;
  store.status = found.status;
  if (!head.dataflow) return;
  graph.show(head);
  charts.show(head);
}

async function heard(name, told) {
  store.add(told);
  notice("trouble", store.status.trouble, "bad");
  if (name === "end") {
    [connected, ended] = [false, true];
    notice(
      "lost",
      `The dashboard has ended. To show this run again: \`penstock dashboard ${head?.run_dir ?? "RUN_DIR"}\`.`,
    );
  }
  if (!head?.dataflow) await begin();
  drawAll();
}

function lost() {
  if (connected)
    notice("lost", "The connection to the dashboard is lost, so the page is out of date. Reconnecting…", "bad");
  connected = false;
  drawHead();
}

async function back(seconds) {
  [connected, ended] = [true, false];
  notice(
    "lost",
    `The connection was lost for ${span(seconds)} and is back since ${new Date().toLocaleTimeString()}; no data is missing.`,
    "good",
  );
  await begin();
}

async function start() {
  enter();
  theme($("theme"));
  drawAll();
  try {
    await begin();
    await follow({ since: () => `since=${store.turn}&event=${store.event}`, heard, lost, back });
  } catch (error) {
    connected = false;
    drawHead();
    say($("about"), "Access denied.");
    const input = el("input", { type: "password", "aria-label": "Token", autocomplete: "off" });
    const use = el(
      "button",
      {
        type: "button",
        onclick: () => {
          location.hash = `token=${encodeURIComponent(input.value)}`;
          location.reload();
        },
      },
      "Use token",
    );
    notice(
      "closed",
      error instanceof Failed
        ? `A token is needed: ${error.message}.`
        : `The dashboard cannot be reached: ${error.message}`,
      "bad",
    );
    if (error instanceof Failed && error.status === 401) notices.get("closed").append(input, use);
  }
}

document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, select, textarea, button, summary, [role=button]")) return;
  if (event.key === " ") {
    event.preventDefault();
    $("play").click();
  }
});

start();
