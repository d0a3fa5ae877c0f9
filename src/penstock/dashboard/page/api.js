// Requests to the server. The token comes in the URL fragment and stays in this tab.

const KEY = "penstock-token";

/** Move the token out of the URL, so that it is in no bookmark and no screenshot. */
export function enter() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    sessionStorage.setItem(KEY, given);
    history.replaceState(null, "", location.pathname);
  }
}

export const hasToken = () => sessionStorage.getItem(KEY) !== null;
export const keepToken = (token) => sessionStorage.setItem(KEY, token);

function headers() {
  const token = sessionStorage.getItem(KEY);
  return token === null ? {} : { Authorization: `Bearer ${token}` };
}

/** An error response of the server. */
export class Failed extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function answered(response) {
  const told = await response.json().catch(() => ({}));
  if (!response.ok) throw new Failed(response.status, told?.error ?? `the dashboard answered ${response.status}`);
  return told;
}

export async function get(path) {
  return answered(await fetch(path, { headers: headers() }));
}

/** Send a request to the running flow, in the syntax of the command line. */
export async function ask(request) {
  const all = { ...headers(), "Content-Type": "application/json" };
  return answered(await fetch("/api/ask", { method: "POST", headers: all, body: JSON.stringify({ request }) }));
}

const SILENCE = 6000; // ms without data until the connection counts as lost
const PATIENCE = 20000; // ms until the first byte: a long history takes time

/** Read server-sent events until they end. Throws when the connection is lost. */
async function read(since, heard) {
  const control = new AbortController();
  let watch = 0;
  const alive = (limit = SILENCE) => {
    clearTimeout(watch);
    watch = setTimeout(() => control.abort(), limit);
  };
  try {
    alive(PATIENCE);
    const response = await fetch(`/api/stream?${since}`, { headers: headers(), signal: control.signal });
    if (!response.ok) await answered(response);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ""; ;) {
      const { value, done } = await reader.read();
      if (done) throw new Error("the connection ended");
      alive();
      const parts = (text + value).split("\n\n");
      text = parts.pop();
      for (const part of parts) {
        const name = /^event: (.*)$/m.exec(part)?.[1];
        const data = /^data: (.*)$/m.exec(part)?.[1];
        if (!data) continue;
        heard(name, JSON.parse(data));
        if (name === "end") return;
      }
    }
  } finally {
    clearTimeout(watch);
    control.abort();
  }
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/**
 * Follow a run for as long as this page is open. `since` returns a query with the last known turn
 * and event, so that nothing is missed between connections; `lost` and `back` report them. After the
 * dashboard has ended, keep trying: it may be started again.
 */
export async function follow({ since, heard, lost, back }) {
  for (let wait = 300, away = null; ;) {
    try {
      await read(since(), (name, told) => {
        if (away !== null) back((Date.now() - away) / 1000);
        [wait, away] = [300, null];
        heard(name, told);
      });
      [wait, away] = [3000, Date.now()];
    } catch (error) {
      if (error instanceof Failed && error.status === 401) throw error;
      away ??= Date.now();
      lost(error);
    }
    await pause(wait);
    wait = Math.min(5000, wait * 1.6);
  }
}
