/** A large fabric in groups: its pods, and the switches above them. */

import { layersOf, neighboursOf, podsOf, type Edge, type Node } from './fabric';
import { LEVELS } from './rates';

export interface Group {
  /** That of its first switch. */
  id: string;
  name: string;
  /** Whether it is above the pods. */
  top: boolean;
  switches: string[];
}

/** How many switches are drawn at once. */
export const MOST_DRAWN = 80;

/** A group that is no pod has so many switches, or fewer if each has many links. */
const MOST_GROUPED = 40;
const LEAST_GROUPED = 8;
const MOST_LINKS = 400;

const short = (id: string): string => id.replace(/^0+(?=.)/, '');

/** The groups, those above all first. The same fabric always has the same ones. Switches of the
 * lowest layer that nothing but the top joins are no pods by themselves: they are grouped in the
 * order of their ids. */
export function groupsOf(nodes: readonly Node[], edges: readonly Edge[]): Group[] {
  if (nodes.length === 0) return [];
  const neighbours = neighboursOf(nodes, edges);
  const layers = layersOf(nodes, neighbours);
  const highest = Math.max(...layers.values());
  const ids = nodes.map(({ id }) => id).sort();
  const isTop = (id: string): boolean => highest > 0 && layers.get(id) === highest;
  const pods = podsOf(ids, neighbours, isTop);
  const degree = (id: string): number => neighbours.get(id)?.size ?? 0;
  const real = pods.filter((pod) => pod.length > 1);
  const alone = pods.filter((pod) => pod.length === 1).flat();
  return [
    ...pieces(ids.filter(isTop), degree).map((switches) => group(range(switches), switches, true)),
    ...real.map((switches, n) => group(`Pod ${n + 1}`, switches)),
    ...pieces(alone, degree).map((switches) => group(range(switches), switches)),
  ];
}

function group(name: string, switches: string[], top = false): Group {
  return { id: switches[0] ?? '', name, top, switches };
}

function range(switches: readonly string[]): string {
  const [first = '', last = ''] = [switches[0], switches.at(-1)];
  return first === last ? `Switch ${short(first)}` : `Switches ${short(first)} – ${short(last)}`;
}

function pieces(ids: readonly string[], degree: (id: string) => number): string[][] {
  const links = Math.max(1, ...ids.map(degree));
  const size = Math.max(LEAST_GROUPED, Math.min(MOST_GROUPED, Math.floor(MOST_LINKS / links)));
  const found: string[][] = [];
  for (let at = 0; at < ids.length; at += size) found.push(ids.slice(at, at + size));
  return found;
}

/** A group and what it is connected to, to be laid out: as much of that as can be drawn. */
export function around(
  group: Group,
  nodes: readonly Node[],
  edges: readonly Edge[],
): { nodes: Node[]; edges: Edge[] } {
  const own = new Set(group.switches);
  const touching = edges.filter(([a, b]) => own.has(a) || own.has(b));
  const others = new Set(touching.flat().filter((id) => !own.has(id)));
  const shown = own.size + others.size <= MOST_DRAWN ? new Set([...own, ...others]) : own;
  return {
    nodes: nodes
      .filter(({ id }) => shown.has(id))
      // Below those of the top are the others, whatever they have: that puts them there.
      .map((node) => (group.top && others.has(node.id) ? { ...node, hosts: 1 } : node)),
    edges: touching.filter(([a, b]) => shown.has(a) && shown.has(b)),
  };
}

/** What a group is like as a whole. */
export interface Summary {
  away: number;
  /** The worst level of all ports, 0 without congestion. */
  level: number;
  congested: number;
  /** The share that the most used port sends of what it can; null: nothing is known. */
  busiest: number | null;
}

export interface PortState {
  owner: string;
  level: number;
  sent_bps: number | null;
  rate_bps: number;
}

/** Of each group by its id. What switches that are away told last does not count. */
export function summaries(
  groups: readonly Group[],
  ports: Iterable<PortState>,
  away: ReadonlySet<string>,
): Map<string, Summary> {
  const found = new Map<string, Summary>();
  const bySwitch = new Map<string, Summary>();
  for (const { id, switches } of groups) {
    const summary: Summary = { away: 0, level: 0, congested: 0, busiest: null };
    for (const one of switches) {
      bySwitch.set(one, summary);
      if (away.has(one)) summary.away += 1;
    }
    found.set(id, summary);
  }
  for (const { owner, level, sent_bps, rate_bps } of ports) {
    const summary = bySwitch.get(owner);
    if (summary === undefined || away.has(owner)) continue;
    summary.level = Math.max(summary.level, level);
    if (level > 0) summary.congested += 1;
    if (sent_bps !== null && rate_bps > 0) {
      summary.busiest = Math.max(summary.busiest ?? 0, sent_bps / rate_bps);
    }
  }
  return found;
}

/** The switches of a group that want a look: those that are away, then those with congested ports,
 * the worst first. */
export function troubled(
  group: Group,
  levels: ReadonlyMap<string, number>,
  away: ReadonlySet<string>,
): string[] {
  const rank = (id: string): number => (away.has(id) ? LEVELS.length : (levels.get(id) ?? 0));
  return group.switches.filter((id) => rank(id) > 0).sort((a, b) => rank(b) - rank(a));
}

/** The switches that somebody means: by a part of the id, or by the beginning of a port's name.
 * The best first, at most `most`. */
export function find(
  text: string,
  switches: readonly string[],
  ports: Iterable<{ owner: string; name: string }>,
  most = 8,
): string[] {
  const wanted = text.trim().toLowerCase().replace(/^0x/, '');
  if (wanted === '') return [];
  const exact = wanted.padStart(16, '0');
  const found = new Set<string>();
  if (switches.includes(exact)) found.add(exact);
  const named = [...ports].filter(({ name }) => name.toLowerCase().startsWith(wanted));
  const known = new Set(switches);
  for (const { owner } of named) if (known.has(owner)) found.add(owner);
  for (const id of switches) if (id.endsWith(wanted)) found.add(id);
  for (const id of switches) if (short(id).includes(wanted)) found.add(id);
  return [...found].slice(0, most);
}
