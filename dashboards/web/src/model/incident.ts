/** An incident: what the API tells of a part of the time axis, and what that amounts to. */

import { placeOf } from './events';
import { queryOf, type Interval } from './interval';
import { portId } from './rates';
import { hashOf } from './route';
import type {
  AuditEntry,
  Flow,
  History,
  Level,
  Queue,
  Regulation,
  SeriesName,
  WeirEvent,
} from './types';

interface Named {
  datapath_id: string;
  port: number;
  name: string;
}

/** A congested port as it was at a moment, with its largest flows; null: not known. */
export interface Snapshot extends Named {
  at_s: number;
  queue: Queue | null;
  regulation: Regulation | null;
  flows: Flow[] | null;
}

export interface IncidentPort extends Named {
  worst: Level | null;
  notices: number;
  history: History;
}

export interface Gap {
  from_s: number;
  to_s: number;
  why: string;
}

/** `/v1/incident`. Events are in their order, at most 5000; ports are at most 8. */
export interface Incident {
  from_s: number;
  to_s: number;
  asked_s: number;
  version: string;
  port: Named | null;
  totals: History;
  ports: IncidentPort[];
  events: WeirEvent[];
  events_left_out: number;
  /** Since when events are kept; null if none are. */
  events_from_s: number | null;
  gaps: Gap[];
  snapshots: Snapshot[];
  audit: AuditEntry[];
}

/** The longest part of the time axis that the API tells at once. */
export const MOST_S = 3600;

/** In doubles, the difference of two times may be a little more than it was meant to be. */
const ROUNDED_S = 0.002;

export const fits = ({ from_s, to_s }: Interval): boolean => to_s - from_s <= MOST_S;

/** The last part before a time, of this length if the API tells so much. */
export const lastPart = (to_s: number, span_s: number): Interval => ({
  from_s: to_s - Math.min(span_s, MOST_S - ROUNDED_S),
  to_s,
});

/** Twice as long, if the API tells so much, around the same middle. */
export function widened({ from_s, to_s }: Interval): Interval {
  const more_s = Math.min(to_s - from_s, MOST_S - ROUNDED_S - (to_s - from_s)) / 2;
  return more_s > 0 ? { from_s: from_s - more_s, to_s: to_s + more_s } : { from_s, to_s };
}

/** The port of an address, as "datapath_id:port"; null for the whole fabric. */
export function portOf(query: URLSearchParams): string | null {
  const text = query.get('port') ?? '';
  return /^[0-9a-f]{16}:[1-9]\d{0,9}$/.test(text) ? text : null;
}

export const incidentHash = (interval: Interval, port: string | null): string =>
  hashOf('incident', { ...queryOf(interval), port: port ?? '' });

/** What is not known of the time, the first first. */
export function unknown({ from_s, to_s, gaps, events_from_s }: Incident): Gap[] {
  const told = gaps.map((gap) => ({
    ...gap,
    from_s: Math.max(gap.from_s, from_s),
    to_s: Math.min(gap.to_s, to_s),
  }));
  const since_s = events_from_s ?? Infinity;
  if (since_s > from_s) {
    const why = since_s < to_s ? 'events from before were not kept' : 'no event was kept';
    told.push({ from_s, to_s: Math.min(since_s, to_s), why });
  }
  return told.sort((a, b) => a.from_s - b.from_s);
}

/** What was in force at a port: the last that was told of it within the time. */
export interface Force {
  queue: Queue | null;
  limit_bytes: number | null;
  capacity_bps: number | null;
}

export function forceOf(incident: Incident, id: string): Force {
  const snapshots = incident.snapshots.filter((one) => portId(one) === id);
  const queue = snapshots.findLast((one) => one.queue !== null)?.queue ?? null;
  const rule = snapshots.findLast((one) => one.regulation !== null)?.regulation ?? null;
  const told = incident.events.findLast(
    (event) => placeOf(event) === id && typeof event['limit_bytes'] === 'number',
  );
  return {
    queue,
    limit_bytes: queue?.limit_bytes ?? (told?.['limit_bytes'] as number | undefined) ?? null,
    capacity_bps: queue?.rate_bps || rule?.capacity_bps || null,
  };
}

/** A flow that was among the largest of a port, over all moments at which it was. */
export interface LargeFlow {
  key: string;
  src: string;
  src_port: number;
  dst: string;
  dst_port: number;
  vlan: number | null;
  /** Each that it had, in their order. */
  classes: string[];
  treatments: string[];
  /** The last one; null if it was never counted. */
  volume_bytes: number | null;
  /** Between the first and the last moment of its connection; null if there is only one. */
  mean_bps: number | null;
  first_s: number;
  last_s: number;
}

/** The flows of a port's snapshots, the largest first. */
export function largeFlows(snapshots: readonly Snapshot[], id: string): LargeFlow[] {
  const found = new Map<string, LargeFlow & { begun_bytes: number | null; begun_s: number }>();
  for (const snapshot of snapshots) {
    if (portId(snapshot) !== id) continue;
    for (const flow of snapshot.flows ?? []) {
      // Older recordings tell no VLAN.
      const { src, src_port, dst, dst_port, vlan = null } = flow;
      const key = JSON.stringify([src, src_port, dst, dst_port, vlan]);
      const counted = flow.counted ? flow.volume_bytes : null;
      let one = found.get(key);
      if (one === undefined) {
        one = {
          ...{ key, src, src_port, dst, dst_port, vlan, classes: [], treatments: [] },
          ...{ volume_bytes: null, mean_bps: null, first_s: snapshot.at_s, last_s: snapshot.at_s },
          ...{ begun_bytes: null, begun_s: 0 },
        };
        found.set(key, one);
      }
      if (one.classes.at(-1) !== flow.class) one.classes.push(flow.class);
      if (one.treatments.at(-1) !== flow.treatment) one.treatments.push(flow.treatment);
      one.last_s = snapshot.at_s;
      if (counted === null) continue;
      // A volume that falls is of another connection between the same ends.
      if (one.begun_bytes === null || counted < (one.volume_bytes ?? 0)) {
        [one.begun_bytes, one.begun_s, one.mean_bps] = [counted, snapshot.at_s, null];
      }
      one.volume_bytes = counted;
      const passed_s = snapshot.at_s - one.begun_s;
      if (passed_s > 0) one.mean_bps = ((counted - one.begun_bytes) * 8) / passed_s;
    }
  }
  return [...found.values()].sort((a, b) => (b.volume_bytes ?? -1) - (a.volume_bytes ?? -1));
}

/** What the snapshots of a port do not tell of its flows; null if there is nothing to say. */
export function unknownFlows(snapshots: readonly Snapshot[], id: string): string | null {
  const mine = snapshots.filter((one) => portId(one) === id);
  const unknown = mine.filter((one) => one.flows === null).length;
  if (mine.length === 0) {
    return 'There is no snapshot: they are taken every 2 s while a port is congested.';
  }
  if (unknown === mine.length) {
    return 'Its flows are not known: the controller did not answer when snapshots were taken.';
  }
  const some =
    unknown === 0
      ? ''
      : `In ${unknown} of ${mine.length} snapshots its flows are not known: the controller did not answer.`;
  if (mine.some((one) => one.flows?.length)) return some || null;
  return `The controller knew of no flows there. ${some}`.trim();
}

/** A time in which a port was regulated in one way: of one scheme, with the same windows. */
export interface Phase {
  from_s: number;
  to_s: number;
  rule: Regulation;
  /** The fewest and the most burst flows of it. */
  burst: [number, number];
  background: [number, number];
}

/** How a port was regulated, one phase after the other. */
export function phases(snapshots: readonly Snapshot[], id: string): Phase[] {
  const told: Phase[] = [];
  for (const snapshot of snapshots) {
    const { at_s, regulation: rule } = snapshot;
    if (portId(snapshot) !== id || rule === null) continue;
    const { burst_flows, background_flows } = rule;
    const last = told.at(-1);
    if (last !== undefined && manner(last.rule) === manner(rule)) {
      last.to_s = at_s;
      last.burst = extended(last.burst, burst_flows);
      last.background = extended(last.background, background_flows);
    } else {
      const [burst, background] = [extended(null, burst_flows), extended(null, background_flows)];
      told.push({ from_s: at_s, to_s: at_s, rule, burst, background });
    }
  }
  return told;
}

const manner = ({ scheme, holds }: Regulation): string => JSON.stringify([scheme, holds]);

const extended = (range: [number, number] | null, value: number): [number, number] =>
  range === null ? [value, value] : [Math.min(range[0], value), Math.max(range[1], value)];

/** How much there was of something, and of how much of the time that is known. */
export interface Sum {
  value: number;
  known_s: number;
  of_s: number;
}

/** How much there was of something within the time, from what there was in each second; null if
 * nothing is known of it. */
export function sum(history: History, name: SeriesName, { from_s, to_s }: Interval): Sum | null {
  const { begin_s, step_s, series } = history;
  let [total, known_s] = [0, 0];
  series[name].forEach((value, at) => {
    const begin = begin_s + at * step_s;
    const part_s = Math.min(begin + step_s, to_s) - Math.max(begin, from_s);
    if (value === null || part_s <= 0) return;
    total += value * part_s;
    known_s += part_s;
  });
  return known_s > 0 ? { value: total, known_s, of_s: to_s - from_s } : null;
}
