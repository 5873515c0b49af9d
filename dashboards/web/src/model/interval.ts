/** A part of the time axis that somebody has picked: in addresses, in forms, in words. */

import { duration, timeOfDay } from './format';

/** Seconds since 1970. */
export interface Interval {
  from_s: number;
  to_s: number;
}

/** The shortest one that a chart shows. */
export const LEAST_S = 0.01;

const FARTHEST_S = 8.64e12;
const DIGITS = /^\d{1,13}(\.\d{1,9})?$/;

/** The interval of an address; null if there is none, or none that makes sense. */
export function intervalOf(query: URLSearchParams): Interval | null {
  const [from, to] = [query.get('from') ?? '', query.get('to') ?? ''];
  if (!DIGITS.test(from) || !DIGITS.test(to)) return null;
  const interval = { from_s: Number(from), to_s: Number(to) };
  return interval.to_s > interval.from_s && interval.to_s <= FARTHEST_S ? interval : null;
}

/** To the millisecond. */
export const queryOf = ({ from_s, to_s }: Interval): { from: string; to: string } => ({
  from: from_s.toFixed(3),
  to: to_s.toFixed(3),
});

/** Two moments in order, and far enough apart to be drawn. */
export function between(a_s: number, b_s: number): Interval {
  const [from_s, to_s] = [Math.min(a_s, b_s), Math.max(a_s, b_s)];
  const lack_s = Math.max(0, LEAST_S - (to_s - from_s)) / 2;
  return { from_s: from_s - lack_s, to_s: to_s + lack_s };
}

/** 2026-11-25 04:20:01 to 04:20:31 (30 s), in local time; milliseconds only of what is short. */
export function intervalText(interval: Interval): string {
  const { from_s, to_s } = interval;
  const ms = to_s - from_s < 10;
  const [first, second] = [localDate(from_s), localDate(to_s)];
  const end = `${first === second ? '' : `${second} `}${timeOfDay(to_s, ms)}`;
  return `${first} ${timeOfDay(from_s, ms)} to ${end} (${duration(to_s - from_s)})`;
}

/** 2026-11-25 */
export function localDate(at_s: number): string {
  const at = new Date(at_s * 1000);
  const pad = (n: number): string => String(n).padStart(2, '0');
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
}

/** What a field for a local date and time holds: 2026-11-25T04:20:01.250 */
export const fieldOf = (at_s: number): string =>
  `${localDate(at_s)}T${timeOfDay(Math.round(at_s * 1000) / 1000, true)}`;

/** The moment that such a field says; null if it says none. */
export function momentOf(field: string): number | null {
  const at_ms = /^\d{4,6}-\d\d-\d\dT\d\d:\d\d/.test(field) ? Date.parse(field) : NaN;
  return Number.isFinite(at_ms) ? at_ms / 1000 : null;
}

/** The label of a tick on an axis whose ticks are so many seconds apart. */
export function tickText(at_s: number, step_s: number): string {
  if (step_s >= 86_400) return localDate(at_s).slice(5);
  if (step_s >= 60) return timeOfDay(at_s).slice(0, 5);
  if (step_s >= 1) return timeOfDay(at_s);
  // A tick is where it is but for the last bits of a double.
  const text = timeOfDay(Math.round(at_s * 1000) / 1000, true);
  return step_s >= 0.1 ? text.slice(0, -2) : step_s >= 0.01 ? text.slice(0, -1) : text;
}
