// Numbers formatted for people. A dash is not measured, never 0.

const NONE = "–";
const missing = (value) => value === null || value === undefined || !Number.isFinite(value);

/** 812, 9,950, 63.2k, 1.25M */
export function count(value) {
  if (missing(value)) return NONE;
  if (Math.abs(value) < 9999.5) return Math.round(value).toLocaleString("en-US");
  for (const [limit, unit] of [
    [1e6, "k"],
    [1e9, "M"],
    [1e12, "G"],
  ]) {
    if (Math.abs(value) < limit * 0.99995) {
      const scaled = (value / limit) * 1000;
      return scaled.toFixed(scaled < 10 ? 2 : scaled < 100 ? 1 : 0) + unit;
    }
  }
  return `${(value / 1e12).toPrecision(3)}T`;
}

/** Rows per second; small rates keep a digit. */
export function rate(value) {
  if (missing(value)) return NONE;
  return value > 0 && value < 9.95 ? value.toFixed(1) : count(value);
}

/** 8.2 ms, 410 ms, 1.32 s, 3m10s */
export function span(seconds) {
  if (missing(seconds)) return NONE;
  if (Math.abs(seconds) < 5e-8) return "0 s"; // left over by rounding
  if (seconds < 0) return `−${span(-seconds)}`;
  if (seconds < 0.0000995) return `${(1e6 * seconds).toFixed(1)} µs`;
  if (seconds < 0.000995) return `${(1e6 * seconds).toFixed(0)} µs`;
  if (seconds < 0.00995) return `${(1000 * seconds).toFixed(1)} ms`;
  if (seconds < 0.9995) return `${(1000 * seconds).toFixed(0)} ms`;
  if (seconds < 9.995) return `${seconds.toFixed(2)} s`;
  if (seconds < 99.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)}m${String(whole % 60).padStart(2, "0")}s`;
  return `${Math.floor(whole / 3600)}h${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")}m`;
}

/** Elapsed time: 0:07, 12:30, 1:02:03 */
export function clock(seconds) {
  if (missing(seconds)) return NONE;
  const whole = Math.max(0, Math.floor(seconds));
  const two = (n) => String(n).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)}:${two(whole % 60)}`;
  return `${Math.floor(whole / 3600)}:${two(Math.floor((whole % 3600) / 60))}:${two(whole % 60)}`;
}

export function share(value) {
  return missing(value) ? NONE : `${(100 * value).toFixed(0)} %`;
}

export function size(value) {
  if (missing(value)) return NONE;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (Math.abs(value) < 1024) return `${value.toFixed(unit === "B" || value >= 10 ? 0 : 1)} ${unit}`;
    value /= 1024;
  }
  return `${value.toFixed(1)} TiB`;
}

/** A number of a decision; its name tells the unit. */
export function figure(value) {
  if (missing(value)) return NONE;
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  return String(Number(value.toPrecision(4)));
}

/** Date and time of seconds since 1970. */
export function day(seconds) {
  return missing(seconds) ? NONE : new Date(1000 * seconds).toLocaleString();
}

/** Round sizes: multiples of KiB, MiB and so on. */
export function roundSize(top) {
  return round(top, 3, { base: 1024 ** Math.floor(Math.log(Math.max(1, top)) / Math.log(1024)) });
}

export function cut(text, width) {
  return text.length <= width ? text : `${text.slice(0, width - 1)}…`;
}

/** Round values for an axis that ends above `top`; `base`: of which unit they are multiples. */
export function round(top, wanted = 3, { whole = false, base = 1 } = {}) {
  if (!(top > 1e-200) || !Number.isFinite(top)) return [0, 1];
  const raw = top / wanted / base;
  const power = 10 ** Math.floor(Math.log10(raw));
  let step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= raw * 0.999);
  if (whole) step = Math.max(1, Math.ceil(step));
  step *= base;
  const found = [];
  for (let at = 0; at < top + step * 0.999; at += step) found.push(Number(at.toPrecision(12)));
  return found;
}
