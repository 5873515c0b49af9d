/** Where the switches of a fabric stand: in layers, as the fabric is built, pods side by side. */

export interface Node {
  id: string;
  /** How many hosts are behind its ports. */
  hosts: number;
  /** How many of its ports are up and lead to no switch. */
  edgePorts: number;
}

export type Edge = readonly [string, string];

export interface Placed {
  id: string;
  x: number;
  y: number;
  layer: number;
}

export interface Layout {
  nodes: Map<string, Placed>;
  /** Groups of switches that only the top layer joins. */
  pods: { x: number; y: number; width: number; height: number; n: number }[];
  width: number;
  height: number;
  layers: number;
}

const PITCH_X = 96;
/** Of a single layer, whose links need some length, too. */
const WIDE_PITCH_X = 168;
const LEAST_PITCH_Y = 120;
const MOST_PITCH_Y = 300;
/** Of rows of the same layer. */
const FOLDED_PITCH_Y = 64;
const MARGIN_X = 56;
const MARGIN_Y = 44;
const POD_GAP = 32;

export type Neighbours = Map<string, Set<string>>;

export function neighboursOf(nodes: readonly Node[], edges: readonly Edge[]): Neighbours {
  const found: Neighbours = new Map(nodes.map((node) => [node.id, new Set<string>()]));
  for (const [a, b] of edges) {
    if (a === b || !found.has(a) || !found.has(b)) continue;
    found.get(a)?.add(b);
    found.get(b)?.add(a);
  }
  return found;
}

/** The switches that hosts are connected to. Those whose hosts have been silent so far are known
 * by having the same neighbours as one that has hosts, or by ports that lead to no switch. */
function bottom(nodes: readonly Node[], neighbours: Neighbours): Set<string> {
  const found = new Set<string>();
  const signature = (id: string): string => [...(neighbours.get(id) ?? [])].sort().join();
  const alike = new Set<string>();
  for (const node of nodes) {
    if (node.hosts > 0) {
      found.add(node.id);
      alike.add(signature(node.id));
    }
  }
  for (const node of nodes) {
    if (node.edgePorts > 1 || alike.has(signature(node.id))) found.add(node.id);
  }
  if (found.size > 0) return found;
  // Nothing is known but the links: those with the fewest are at the bottom.
  const least = Math.min(...nodes.map((node) => neighbours.get(node.id)?.size ?? 0));
  return new Set(nodes.map((n) => n.id).filter((id) => neighbours.get(id)?.size === least));
}

/** How many links it is from the bottom. What no link leads to is at the bottom. */
export function layersOf(nodes: readonly Node[], neighbours: Neighbours): Map<string, number> {
  const found = new Map<string, number>();
  let row = [...bottom(nodes, neighbours)];
  for (let layer = 0; row.length > 0; layer += 1) {
    for (const id of row) found.set(id, layer);
    const next = row.flatMap((id) => [...(neighbours.get(id) ?? [])]);
    row = [...new Set(next)].filter((id) => !found.has(id));
  }
  for (const { id } of nodes) if (!found.has(id)) found.set(id, 0);
  return found;
}

/** Groups that hang together without the top layer. */
export function podsOf(
  ids: readonly string[],
  neighbours: Neighbours,
  isTop: (id: string) => boolean,
) {
  const pods: string[][] = [];
  const seen = new Set<string>();
  for (const start of ids) {
    if (seen.has(start) || isTop(start)) continue;
    const pod: string[] = [];
    const left = [start];
    seen.add(start);
    for (let id = left.pop(); id !== undefined; id = left.pop()) {
      pod.push(id);
      for (const other of neighbours.get(id) ?? []) {
        if (!seen.has(other) && !isTop(other)) {
          seen.add(other);
          left.push(other);
        }
      }
    }
    pods.push(pod.sort());
  }
  return pods;
}

/** Lay out a fabric. The same fabric is always laid out in the same way. Where more than `most` of
 * the lowest layer would stand side by side, they stand in several rows, each between the last. */
export function layOut(nodes: readonly Node[], edges: readonly Edge[], most = Infinity): Layout {
  const placed = new Map<string, Placed>();
  if (nodes.length === 0) return { nodes: placed, pods: [], width: 0, height: 0, layers: 0 };
  const neighbours = neighboursOf(nodes, edges);
  const layers = layersOf(nodes, neighbours);
  const top = Math.max(...layers.values());
  const ids = nodes.map((node) => node.id).sort();
  // All but the top, a pod beside the other; a pod is as wide as its widest layer.
  const pods: { n: number; x: number; widest: number; lowest: number; highest: number }[] = [];
  const groups = top === 0 ? [ids] : podsOf(ids, neighbours, (id) => layers.get(id) === top);
  const pitchX = top === 0 ? WIDE_PITCH_X : PITCH_X;
  const real = top > 1 && groups.length > 1;
  const lower = new Map<string, number>();
  let x = 0;
  // Without real pods there is nothing between neighbours: they stand as one.
  for (const [n, group] of (real ? groups : [groups.flat()]).entries()) {
    const rows = new Map<number, string[]>();
    for (const id of group) {
      const layer = layers.get(id) ?? 0;
      rows.set(layer, [...(rows.get(layer) ?? []), id]);
    }
    const folded = fold(top === 0 ? 0 : (rows.get(0)?.length ?? 0), most);
    const wide = (layer: number, row: string[]): number =>
      layer === 0 && folded !== null ? folded + 0.5 : row.length;
    const widest = Math.max(...[...rows].map(([layer, row]) => wide(layer, row)));
    for (const [layer, row] of rows) {
      for (const [at, id] of row.entries()) {
        let column = at + 0.5;
        if (layer === 0 && folded !== null) {
          const down = Math.floor(at / folded);
          lower.set(id, down);
          column = (at % folded) + 0.5 + (down % 2) / 2;
        }
        const inRow = column * (widest / wide(layer, row)) * pitchX;
        placed.set(id, { id, layer, x: MARGIN_X + x + inRow, y: 0 });
      }
    }
    if (real && group.length > 1) {
      const [lowest, highest] = [Math.min(...rows.keys()), Math.max(...rows.keys())];
      pods.push({ n: n + 1, x: MARGIN_X + x, widest, lowest, highest });
    }
    x += widest * pitchX + (real ? POD_GAP : 0);
  }
  if (real) x -= POD_GAP;

  // The top, over all of it, in the order of what it is connected to.
  const above = top === 0 ? [] : ids.filter((id) => layers.get(id) === top);
  const below = (id: string): number => {
    const at = [...(neighbours.get(id) ?? [])].map((one) => placed.get(one)?.x ?? 0);
    return at.length > 0 ? Math.round(at.reduce((sum, one) => sum + one, 0) / at.length) : 0;
  };
  const order = new Map(above.map((id) => [id, below(id)]));
  above.sort((a, b) => (order.get(a) ?? 0) - (order.get(b) ?? 0) || (a < b ? -1 : 1));
  const width = Math.max(x, above.length * PITCH_X);
  const shift = (width - x) / 2;
  if (shift > 0) {
    for (const node of placed.values()) node.x += shift;
    for (const pod of pods) pod.x += shift;
  }
  for (const [at, id] of above.entries()) {
    const inRow = (at + 0.5) * (width / above.length);
    placed.set(id, { id, layer: top, x: MARGIN_X + inRow, y: 0 });
  }

  // The wider, the higher: links that are nearly level cannot be told apart.
  const pitch = Math.round(Math.min(MOST_PITCH_Y, Math.max(LEAST_PITCH_Y, width / 10)));
  const y = (layer: number): number => MARGIN_Y + (top - layer) * pitch;
  for (const node of placed.values()) {
    node.y = y(node.layer) + FOLDED_PITCH_Y * (lower.get(node.id) ?? 0);
  }
  const below_y = FOLDED_PITCH_Y * Math.max(0, ...lower.values());
  return {
    nodes: placed,
    pods: pods.map(({ n, x: left, widest, lowest, highest }) => ({
      n,
      x: left,
      y: y(highest) - 30,
      width: widest * PITCH_X,
      height: y(lowest) - y(highest) + 84 + (lowest === 0 ? below_y : 0),
    })),
    width: width + 2 * MARGIN_X,
    height: top * pitch + below_y + 2 * MARGIN_Y + 24,
    layers: top + 1,
  };
}

/** How many of so many stand in a row, the rows being as long as each other; null: one row. */
const fold = (count: number, most: number): number | null =>
  count <= most ? null : Math.ceil(count / Math.ceil(count / most));

/** How strongly a link is used, in five steps; null: not known. */
export function useStep(sent_bps: number | null, capacity: number): number | null {
  if (sent_bps === null || capacity <= 0) return null;
  const use = sent_bps / capacity;
  return use < 0.02 ? 0 : use < 0.25 ? 1 : use < 0.5 ? 2 : use < 0.8 ? 3 : 4;
}

/** How far the line of one direction is from the middle of a link: the widest have room so. */
const BESIDE = 3.5;

/** The path of one direction of a link, beside that of the other. Links within a layer bow. */
export function linkPath(a: Placed, b: Placed): string {
  const dx = b.x - a.x;
  const dy = b.y - a.y;
  const length = Math.hypot(dx, dy) || 1;
  // To the right of the direction of travel.
  const ox = (-dy / length) * BESIDE;
  const oy = (dx / length) * BESIDE;
  const from = `M${round(a.x + ox)} ${round(a.y + oy)}`;
  const to = `${round(b.x + ox)} ${round(b.y + oy)}`;
  if (a.layer !== b.layer || Math.abs(dx) <= 1.1 * WIDE_PITCH_X) return `${from}L${to}`;
  const bow = Math.min(56, 12 + Math.abs(dx) / 8);
  return `${from}Q${round((a.x + b.x) / 2 + ox)} ${round(a.y + bow + oy)} ${to}`;
}

/** Where the port stands that sends in a direction: on its line, outside the box of its switch. */
export function portAt(a: Placed, b: Placed): { x: number; y: number } {
  const dx = b.x - a.x;
  const dy = b.y - a.y;
  const length = Math.hypot(dx, dy) || 1;
  // The box is 68 wide and 30 high.
  const out = Math.min(40 / Math.max(Math.abs(dx), 1e-9), 21 / Math.max(Math.abs(dy), 1e-9), 0.4);
  return {
    x: round(a.x + dx * out - (dy / length) * BESIDE),
    y: round(a.y + dy * out + (dx / length) * BESIDE),
  };
}

const round = (value: number): number => Math.round(value * 10) / 10;
