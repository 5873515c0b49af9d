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

/** The local time of day of a moment, with the day before it if that is another: 2026-11-24 22:25:03 */
export function whenText(at_s: number, day: string, ms = false): string {
  const own = localDate(at_s);
  return own === day ? timeOfDay(at_s, ms) : `${own} ${timeOfDay(at_s, ms)}`;
}

/** UTC+02:00, as this browser has it at that moment. */
export function zone(at_s: number): string {
  const east_min = -new Date(at_s * 1000).getTimezoneOffset();
  const pad = (n: number): string => String(Math.floor(n)).padStart(2, '0');
  const size = Math.abs(east_min);
  return `UTC${east_min < 0 ? '-' : '+'}${pad(size / 60)}:${pad(size % 60)}`;
}

/** Those of both ends, if they are not the same: UTC+02:00 to UTC+01:00 */
export function zones({ from_s, to_s }: Interval): string {
  const [first, second] = [zone(from_s), zone(to_s)];
  return first === second ? first : `${first} to ${second}`;
}

/** What a field for a local date and time holds: 2026-11-25T04:20:01.250 */
export const fieldOf = (at_s: number): string =>
  `${localDate(at_s)}T${timeOfDay(Math.round(at_s * 1000) / 1000, true)}`;

/** By how much clocks are set back where summer time ends. */
const SET_BACK_S = [1800, 3600, 7200];

/** The moment that such a field says; null if it says none. Of two moments that it may say, since
 * clocks were set back between them, the nearer to another one. */
export function momentOf(field: string, near_s = 0): number | null {
  const at_ms = /^\d{4,6}-\d\d-\d\dT\d\d:\d\d/.test(field) ? Date.parse(field) : NaN;
  if (!Number.isFinite(at_ms)) return null;
  const at_s = at_ms / 1000;
  const others = SET_BACK_S.flatMap((back_s) => [at_s - back_s, at_s + back_s]);
  return others
    .filter((other_s) => fieldOf(other_s) === fieldOf(at_s))
    .reduce((a, b) => (Math.abs(b - near_s) < Math.abs(a - near_s) ? b : a), at_s);
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
