/** The latest events: kept in order, searched, told in words, written to a file. */

import { bytes, duration } from './format';
import { datapathId } from './json';
import type { WeirEvent } from './types';

/** How many are kept. */
export const MOST = 5000;

/** Says that events came faster than they could be told. It has no serial number and no time. */
export const MISSED = 'events_missed';

const unnumbered = new WeakMap<WeirEvent, number>();
let nUnnumbered = 0;

/** One event, however often it is told. Serial numbers begin anew with the controller. What has
 * none is told once. */
export function keyOf(event: WeirEvent): string {
  if (event.serial !== undefined) return `${event.wall_s ?? ''}/${event.serial}`;
  let number = unnumbered.get(event);
  if (number === undefined) {
    nUnnumbered += 1;
    number = nUnnumbered;
    unnumbered.set(event, number);
  }
  return `without number/${number}`;
}

/** The latest events, each once, the newest last. */
export class Tail {
  #events: WeirEvent[] = [];
  #keys = new Set<string>();

  /** Take what a stream or an answer has told, in any order; whether anything was new. */
  take(events: readonly WeirEvent[]): boolean {
    const fresh = this.#dated(events).filter((event) => !this.#keys.has(keyOf(event)));
    if (fresh.length === 0) return false;
    const newest = this.#events.at(-1)?.wall_s ?? 0;
    const inOrder = fresh.every(
      (event, n) => (event.wall_s ?? newest) >= (fresh[n - 1]?.wall_s ?? newest),
    );
    this.#events.push(...fresh);
    if (!inOrder) this.#events.sort((a, b) => (a.wall_s ?? newest) - (b.wall_s ?? newest));
    for (const event of fresh) this.#keys.add(keyOf(event));
    for (const old of this.#events.splice(0, Math.max(0, this.#events.length - MOST))) {
      this.#keys.delete(keyOf(old));
    }
    return true;
  }

  /** What has no time has that of the newest event before it. */
  #dated(events: readonly WeirEvent[]): WeirEvent[] {
    let newest = this.#events.at(-1)?.wall_s;
    return events.map((event) => {
      if (event.wall_s === undefined)
        return newest === undefined ? event : { ...event, wall_s: newest };
      newest = Math.max(newest ?? event.wall_s, event.wall_s);
      return event;
    });
  }

  get events(): readonly WeirEvent[] {
    return this.#events;
  }
}

/** What was recorded, and what has come since, each once. */
export function joined(
  recorded: readonly WeirEvent[],
  latest: readonly WeirEvent[],
): readonly WeirEvent[] {
  if (recorded.length === 0) return latest;
  const keys = new Set(recorded.map(keyOf));
  const all = [...recorded, ...latest.filter((event) => !keys.has(keyOf(event)))];
  return all.sort((a, b) => (a.wall_s ?? 0) - (b.wall_s ?? 0));
}

export const KINDS = ['notices', 'regulation', 'fabric', 'hosts', 'controller'] as const;
export type Kind = (typeof KINDS)[number];

const OF_KIND: Record<string, Kind> = {
  queue_event: 'notices',
  window_set: 'regulation',
  regulation_off: 'regulation',
  regulation_on: 'regulation',
  switch_up: 'fabric',
  switch_down: 'fabric',
  switch_audited: 'fabric',
  link_up: 'fabric',
  link_down: 'fabric',
  link_lossy: 'fabric',
  link_clean: 'fabric',
  protection_on: 'fabric',
  protection_off: 'fabric',
  host_learnt: 'hosts',
  host_moved: 'hosts',
  host_lost: 'hosts',
  host_address: 'hosts',
  packet_ins_limited: 'hosts',
  packet_ins_in_budget: 'hosts',
  flow_announced: 'hosts',
  flow_withdrawn: 'hosts',
  flow_expired: 'hosts',
};

export const kindOf = (event: WeirEvent): Kind => OF_KIND[event.event] ?? 'controller';

const HEAD = new Set(['event', 'serial', 'time_ns', 'wall_s']);

/** The port or switch that an event is of, as "datapath_id:port" or "datapath_id"; empty if none. */
export function placeOf(event: WeirEvent): string {
  const { port } = event;
  if (typeof port === 'string' && /^[0-9a-f]{16}:\d+$/.test(port)) return port;
  const id = datapathId(event['switch']);
  return id !== '' && typeof port === 'number' ? `${id}:${port}` : id;
}

/** What an event says besides its name, time and place. */
export function told(event: WeirEvent): string {
  switch (event.event) {
    case 'queue_event': {
      const { notice, packets, bytes: size, limit_bytes, burst, background } = event;
      const length = `${bytes(number(size))} of ${bytes(number(limit_bytes))}`;
      return `${text(notice)} at ${length}, ${text(packets)} packets; ${text(burst)} burst, ${text(background)} background flows`;
    }
    case 'regulation_off':
    case 'regulation_on': {
      // Its port is told by name.
      const { switch: of, port } = event;
      const where = of === null ? 'everywhere, ' : typeof port === 'string' ? `${port}, ` : '';
      const for_s = number(event['for_s']);
      return `${where}by ${text(event['by'])}${for_s === null ? '' : `, for ${duration(for_s)}`}`;
    }
    case 'link_up':
    case 'link_down':
      return `${text(event['a'])} – ${text(event['b'])}`;
    case MISSED:
      return `${text(event['missed'])} events came faster than they could be told`;
  }
  const place = placeOf(event);
  return Object.entries(event)
    .filter(([name, value]) => {
      if (HEAD.has(name)) return false;
      return !(name === 'switch' || (name === 'port' && place.endsWith(text(value))));
    })
    .map(([name, value]) => `${name}: ${text(value)}`)
    .join(', ');
}

const number = (value: unknown): number | null => (typeof value === 'number' ? value : null);
const text = (value: unknown): string =>
  typeof value === 'string' ? value : value === undefined ? '–' : JSON.stringify(value);

export interface Filter {
  kind: string;
  text: string;
}

/** What words are looked for in, of events that have been searched: each comes by many times. */
const searched = new WeakMap<WeirEvent, string>();

function textOf(event: WeirEvent): string {
  let known = searched.get(event);
  if (known === undefined) {
    known = `${JSON.stringify(event)} ${placeOf(event)}`.toLowerCase();
    searched.set(event, known);
  }
  return known;
}

/** The events that pass, in the same order. Words may be anywhere in an event. That some were missed
 * passes always: they might have passed. */
export function filtered(events: readonly WeirEvent[], filter: Filter): WeirEvent[] {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  return events.filter((event) => {
    if (event.event === MISSED) return true;
    if (filter.kind !== '' && kindOf(event) !== filter.kind) return false;
    return words.length === 0 || words.every((word) => textOf(event).includes(word));
  });
}

/** A line of JSON for each event, as in the event log. */
export const jsonLines = (events: readonly WeirEvent[]): string =>
  events.map((event) => `${JSON.stringify(event)}\n`).join('');
