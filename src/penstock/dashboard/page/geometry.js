// Geometry of the graph: layers from left to right, or from top to bottom on narrow pages. The server
// says which operator is in which layer and row.

const ACROSS = { along: 172, aside: 146, box: [-68, -62, 68, 62], lane: 8, down: false };
const DOWN = { along: 124, aside: 176, box: [-34, -42, 136, 44], lane: 8, down: true };

/** Largest and smallest radius of an operator. */
export const BIG = 30;
const SMALL = 11;

export const radius = (cost) =>
  cost === null || cost === undefined ? SMALL + 3 : SMALL + (BIG - SMALL) * Math.sqrt(cost);
export const width = (rate) => (rate === null || rate === undefined ? 1.5 : 1.5 + 1.7 * Math.log10(1 + rate));

export class Geometry {
  constructor(layout, room) {
    const wide = layout.layers * ACROSS.along;
    this.way = wide > room * 1.35 && room < 700 ? DOWN : ACROSS;
    const { along, aside, box, down } = this.way;
    const [margin, above] = [8, 20];
    const size = [(layout.layers - 1) * along, layout.rows * aside];
    const [wideSize, highSize] = down ? [size[1], size[0]] : size;
    this.shift = [margin - box[0], above - box[1]];
    this.width = wideSize + box[2] - box[0] + 2 * margin;
    this.height = highSize + box[3] - box[1] + above + margin;
  }

  /** The centre of a place. */
  at(layer, row) {
    const { along, aside, down } = this.way;
    const [x, y] = down ? [row * aside, layer * along] : [layer * along, row * aside];
    return [x + this.shift[0], y + this.shift[1]];
  }

  box([x, y]) {
    const [left, top, right, bottom] = this.way.box;
    return [x + left, y + top, x + right, y + bottom];
  }

  /** A box with round corners. */
  cell(centre) {
    const [left, top, right, bottom] = this.box(centre);
    const r = 12;
    return (
      `M${left + r},${top}H${right - r}Q${right},${top} ${right},${top + r}V${bottom - r}` +
      `Q${right},${bottom} ${right - r},${bottom}H${left + r}Q${left},${bottom} ${left},${bottom - r}` +
      `V${top + r}Q${left},${top} ${left + r},${top}Z`
    );
  }

  /** Shapes that join the boxes at both ends of an edge. */
  bands(places) {
    const last = places.length - 1;
    const found = [];
    for (let n = 0; n < last; n++)
      found.push(this.#piece(this.#side(places[n], n === 0, 1), this.#side(places[n + 1], n + 1 === last, -1)));
    return found;
  }

  /** The two corners of a box where an edge leaves (`way` 1) or enters it. */
  #side([x, y], whole, way) {
    const { lane, down } = this.way;
    const [left, top, right, bottom] = whole ? this.box([x, y]) : [x - lane, y - lane, x + lane, y + lane];
    const inset = whole ? 13 : 0; // behind the round corners
    if (down)
      return way > 0
        ? [
            [left, bottom - inset],
            [right, bottom - inset],
          ]
        : [
            [left, top + inset],
            [right, top + inset],
          ];
    return way > 0
      ? [
          [right - inset, top],
          [right - inset, bottom],
        ]
      : [
          [left + inset, top],
          [left + inset, bottom],
        ];
  }

  #piece([a, b], [c, d]) {
    return `M${a}${this.#bend(a, c)}L${d}${this.#bend(d, b)}Z`;
  }

  #bend([x, y], [toX, toY]) {
    const [midX, midY] = [(x + toX) / 2, (y + toY) / 2];
    return this.way.down ? `C${x},${midY} ${toX},${midY} ${toX},${toY}` : `C${midX},${y} ${midX},${toY} ${toX},${toY}`;
  }

  /** The line of an edge between two circles, and its middle. */
  line(places, from, to) {
    const points = places.map(([x, y]) => [x, y]);
    const along = this.way.down ? 1 : 0;
    points[0][along] += from;
    points.at(-1)[along] -= to;
    let path = `M${points[0]}`;
    for (let n = 1; n < points.length; n++) path += this.#bend(points[n - 1], points[n]);
    const half = points.length >> 1;
    const [one, other] = [points[half - 1], points[half]];
    return { path, end: places.at(-1), middle: [(one[0] + other[0]) / 2, (one[1] + other[1]) / 2] };
  }
}
