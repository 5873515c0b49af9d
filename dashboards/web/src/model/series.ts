/** History as it grows: what is asked for again, how it is put together, what is drawn. */

import type { History, SeriesName, Values } from './types';

export const SPANS = { '10min': 600, '1h': 3600, '1d': 86_400, '1w': 604_800 } as const;
export type Span = keyof typeof SPANS;

export const isSpan = (text: string | null): text is Span => text !== null && text in SPANS;

const NAMES: readonly SeriesName[] = [
  'sent_bps',
  'queue_bytes',
  'dropped_per_s',
  'requests_per_s',
  'held_per_s',
  'held_s_per_s',
  'timeouts_per_s',
  'answer_s',
];

export const end_s = (history: History): number =>
  history.begin_s + history.step_s * history.series.sent_bps.length;

/** Put a newer part to what is known, and forget what is older than the span. Where both tell,
 * the newer part counts; where neither tells, it is not known. */
export function merge(known: History | null, newer: History, span_s: number): History {
  if (known === null || known.step_s !== newer.step_s || newer.begin_s < known.begin_s) {
    return newer;
  }
  const { step_s } = newer;
  const shift = Math.round((newer.begin_s - known.begin_s) / step_s);
  const length = shift + newer.series.sent_bps.length;
  const surplus = Math.max(0, length - Math.ceil(span_s / step_s));
  const series = {} as Record<SeriesName, Values>;
  for (const name of NAMES) {
    const kept = known.series[name].slice(0, shift);
    while (kept.length < shift) kept.push(null);
    series[name] = kept.concat(newer.series[name]).slice(surplus);
  }
  return { step_s, begin_s: known.begin_s + surplus * step_s, series };
}

/** The moments of all values. */
export function times(history: History): number[] {
  return history.series.sent_bps.map((_, index) => history.begin_s + index * history.step_s);
}

/** From when to ask next: the last few values may still have been incomplete. Null: all of it, also
 * where what is known is of another clock. */
export function since(known: History | null, now_s: number, span_s: number): number | null {
  if (known === null || span_s > SPANS['1h']) return null;
  const age_s = now_s - end_s(known);
  const usable = age_s > -5 * known.step_s && age_s < span_s / 2;
  return usable ? end_s(known) - 5 * known.step_s : null;
}

/** The last value that is known, and how it may be told to somebody who does not see the chart. */
export function last(values: Values): number | null {
  return values.findLast((value) => value !== null) ?? null;
}

export function largest(values: Values): number | null {
  let most: number | null = null;
  for (const value of values) if (value !== null && (most === null || value > most)) most = value;
  return most;
}
