// Details of the selected operator and its pipeline, or of the whole flow.

import { $, el, figures, say } from "./dom.js";
import { count, rate, share, size, span } from "./format.js";

const STATES = {
  source: "source",
  stateless: "stateless",
  keyed: "keyed state",
  global: "global state",
  sink: "sink",
};

const perSecond = (value) => (value === null || value === undefined ? null : `${rate(value)}/s`);

export function showDetail(store, head) {
  const { frame, chosen } = store;
  const operator = head?.dataflow?.operators.find((one) => one.name === chosen);
  say($("detail-title"), operator ? operator.name : "The flow");
  if (!frame) {
    $("detail").replaceChildren(el("p", { class: "empty" }, "Nothing measured yet."));
  } else if (operator) {
    $("detail").replaceChildren(...ofOperator(frame, operator));
  } else {
    $("detail").replaceChildren(...ofFlow(frame));
  }
}

function ofFlow(frame) {
  const { totals, executors } = frame;
  return [
    figures([
      ["rows offered", count(totals.offered)],
      ["rows taken in", count(totals.ingested)],
      ["rows delivered", count(totals.delivered)],
      ["dead letters", count(totals.dead)],
      ...(totals.late ? [["too late", count(totals.late)]] : []),
      ["slots at work", share(frame.load)],
      ["slot-seconds used", count(totals.slot_seconds)],
      ["measured over", span(frame.window)],
    ]),
    ...(executors.there.length
      ? [
          el("h3", { class: "part" }, "Executors"),
          bars(
            executors.there.map((one) => ({
              name: one.name,
              part: one.busy,
              text: `${share(one.busy)} of ${one.slots} slots`,
            })),
          ),
        ]
      : []),
    el("p", { class: "quiet" }, "Select an operator in the graph for its details."),
  ];
}

function ofOperator(frame, operator) {
  const found = frame.operators.find((one) => one.name === operator.name);
  const pipeline = frame.pipelines.find((one) => one.operators.includes(operator.name));
  const more = found?.figures ?? {};
  const { file, line } = operator.written;
  const where = line
    ? el("span", { title: `${file}:${line}` }, `${file.split("/").slice(-2).join("/")}:${line}`)
    : null;
  return [
    figures([
      ["kind", `${operator.form}, ${STATES[operator.state] ?? operator.state}`],
      ["keys", operator.keys.length ? operator.keys.join(", ") : null],
      ["rows in", perSecond(more.rate_in)],
      ["rows out", perSecond(more.rate_out)],
      ["time per row", span(more.service)],
      ["share of all work", share(found?.cost)],
      ["busy", share(more.busy)],
      ["written", where],
    ]),
    found?.figures ? null : el("p", { class: "quiet" }, "This engine does not measure operators one by one."),
    ...ofPipeline(pipeline),
  ].filter(Boolean);
}

function ofPipeline(one) {
  if (!one) return [];
  const parts = Object.entries(one.parts ?? {}).map(([name, seconds]) => [`· ${name}`, span(seconds)]);
  const known = one.instances.some((dot) => dot.rows !== undefined && dot.rows !== null);
  const most = Math.max(...one.instances.map((dot) => dot.rows ?? 0), 1);
  return [
    el("h3", { class: "part" }, `Pipeline: ${one.operators.join(" · ")}`),
    figures([
      ["instances", `${one.parallelism}${one.ceiling ? ` (at most ${one.ceiling} without moving state)` : ""}`],
      ["cadence", one.cadence ? span(one.cadence) : "immediate"],
      ["admission", one.admission === null ? null : one.admission === 0 ? "paused" : `${count(one.admission)} rows`],
      ["utilisation", share(one.utilisation)],
      ["batch time", span(one.batch_seconds)],
      ...parts,
      ["waiting time", span(one.wait)],
      ["rows waiting", count(one.backlog_rows)],
      ["work waiting", span(one.backlog_seconds)],
      ["rows of state", count(one.state_rows)],
      ["state", size(one.state_bytes)],
      ["hottest keys", hottest(one.hottest)],
    ]),
    ...(known
      ? [
          el("h3", { class: "part" }, one.skewed ? "Rows per instance: skewed" : "Rows per instance"),
          bars(
            one.instances.map((dot) => ({
              name: dot.index,
              part: (dot.rows ?? 0) / most,
              heavy: dot.heavy,
              text: `${count(dot.rows)}, ${share(dot.busy)} busy`,
            })),
          ),
        ]
      : []),
  ];
}

function hottest(keys) {
  return keys ? `part ${keys.part} of ${keys.parts}: ${share(keys.share)} of the rows` : null;
}

function bars(list) {
  return el(
    "div",
    { class: "bars" },
    list.map(({ name, part, text, heavy }) => {
      const bar = el("i", {});
      bar.hidden = part === null || part === undefined;
      bar.style.width = `${Math.round(100 * Math.min(1, part ?? 0))}%`;
      return el(
        "div",
        { class: `bar ${heavy ? "heavy" : ""}` },
        el("span", {}, String(name)),
        el("span", {}, bar),
        el("span", {}, text),
      );
    }),
  );
}
