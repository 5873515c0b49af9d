/** Notices of a port's queue, as they are drawn over its chart. */

import { placeOf } from './events';
import { bytes, count } from './format';
import type { Level, Levels, Queue, WeirEvent } from './types';

export const NOTICES = ['CN-H', 'CN-M', 'CN-L', 'CR'] as const;
export type NoticeName = (typeof NOTICES)[number];

export interface Notice {
  name: NoticeName;
  /** Since 1970, by the switch's clock where that is possible: see `noticesOf`. */
  at_s: number;
  bytes: number;
  /** How many burst flows there were. */
  burst: number | null;
}

/** How a notice looks; the shape says what the colour says. Paths are around (0, 0). */
export const SHAPES: Record<NoticeName, { path: string; colour: string; hollow: boolean }> = {
  'CN-H': { path: 'M0 -4.5 4.5 3.5 -4.5 3.5Z', colour: 'level-H', hollow: false },
  'CN-M': { path: 'M0 -4.5 4.5 0 0 4.5 -4.5 0Z', colour: 'level-M', hollow: false },
  'CN-L': { path: 'M-3.5 -3.5H3.5V3.5H-3.5Z', colour: 'level-L', hollow: false },
  CR: { path: 'M-3.5 0A3.5 3.5 0 1 1 3.5 0A3.5 3.5 0 1 1 -3.5 0Z', colour: 'good', hollow: true },
};

const isName = (name: unknown): name is NoticeName => NOTICES.some((one) => one === name);

/** A clock that has jumped, or begun anew with its switch, is not followed. */
const BELIEVED_S = 1;

/** The notices of one port among events, in their order.
 *
 * The controller dates an event when it arrives. How far notices are apart is better told by the
 * switch's clock, so they are placed by it, and it is set by the notice that was under way for the
 * least time. */
export function noticesOf(events: readonly WeirEvent[], port: string): Notice[] {
  const found = events.filter(
    (event) =>
      event.event === 'queue_event' &&
      isName(event['notice']) &&
      typeof event.wall_s === 'number' &&
      typeof event['bytes'] === 'number' &&
      placeOf(event) === port,
  );
  let behind_s = Infinity;
  for (const event of found) {
    const told_s = switch_s(event);
    if (told_s !== null) behind_s = Math.min(behind_s, (event.wall_s ?? 0) - told_s);
  }
  return found.map((event) => {
    const wall_s = event.wall_s ?? 0;
    const told_s = switch_s(event);
    const exact_s = told_s === null ? wall_s : told_s + behind_s;
    return {
      name: event['notice'] as NoticeName,
      at_s: wall_s - exact_s <= BELIEVED_S ? exact_s : wall_s,
      bytes: event['bytes'] as number,
      burst: typeof event['burst'] === 'number' ? event['burst'] : null,
    };
  });
}

function switch_s(event: WeirEvent): number | null {
  const told_ns = event['switch_time_ns'];
  return typeof told_ns === 'number' && told_ns > 0 ? told_ns / 1e9 : null;
}

export const within = (notices: readonly Notice[], from_s: number, to_s: number): Notice[] =>
  notices.filter(({ at_s }) => at_s >= from_s && at_s <= to_s);

/** How many there are of each name, the worst first; names without any are left out. */
export function counted(notices: readonly Pick<Notice, 'name'>[]): [NoticeName, number][] {
  const counts = new Map<NoticeName, number>();
  for (const { name } of notices) counts.set(name, (counts.get(name) ?? 0) + 1);
  return NOTICES.flatMap((name): [NoticeName, number][] => {
    const n = counts.get(name);
    return n === undefined ? [] : [[name, n]];
  });
}

/** The worst level among notices; null for none but CR. */
export const worst = (notices: readonly Notice[]): Level | null =>
  (counted(notices)[0]?.[0].match(/^CN-([LMH])$/)?.[1] as Level | undefined) ?? null;

export interface Threshold {
  level: Level;
  label: string;
  value: number;
}

/** The thresholds that a switch has told, the lowest first. */
export function thresholds(levels: Levels | null | undefined): Threshold[] {
  if (levels == null) return [];
  const told = [
    ['L', levels.low_bytes],
    ['M', levels.mid_bytes],
    ['H', levels.high_bytes],
  ] as const;
  return told.map(([level, value]) => ({ level, value, label: `${level} ${bytes(value)}` }));
}

/** The thresholds of a queue in its unit, in words; null if its switch has told none. */
export function thresholdsText(queue: Queue): string | null {
  if (queue.levels != null) return joined(thresholds(queue.levels).map(({ label }) => label));
  if (queue.packet_levels == null) return null;
  const { low_packets, mid_packets, high_packets } = queue.packet_levels;
  const [low, mid, high] = [low_packets, mid_packets, high_packets].map(count);
  return `${joined([`L ${low}`, `M ${mid}`, `H ${high}`])} packets`;
}

/** What a switch does at the thresholds of a queue; null if it has told none. */
export function meaning(queue: Queue): string | null {
  const { levels, packet_levels: packets } = queue;
  const [low, mid, high] =
    levels != null
      ? [levels.low_bytes, levels.mid_bytes, levels.high_bytes].map((one) => bytes(one))
      : packets != null
        ? [packets.low_packets, packets.mid_packets, packets.high_packets].map(inPackets)
        : [];
  if (low === undefined) return null;
  return (
    `A queue that reaches L (${low}) has its switch send CN-L, at M (${mid}) CN-M, ` +
    `at H (${high}) CN-H, and CR once it has stayed below L.`
  );
}

const inPackets = (n: number): string => `${count(n)} ${n === 1 ? 'packet' : 'packets'}`;
const joined = (parts: string[]): string => parts.join(', ');
