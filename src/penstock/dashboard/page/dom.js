// Creates elements without markup, so that texts of a run are never interpreted.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined));
  return node;
}

/** An HTML element; children are nodes or texts. */
export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same in SVG. */
export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export const $ = (id) => document.getElementById(id);

/** Set a text only if it differs, so that screen readers do not repeat it. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A list of terms and values, without those that were not measured. */
export function figures(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "–");
  return el(
    "dl",
    { class: "figures" },
    shown.map(([term, value]) => [el("dt", {}, term), el("dd", {}, value)]),
  );
}
