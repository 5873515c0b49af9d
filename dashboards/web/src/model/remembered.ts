/** Of which part of what is shown notices are not known, and why. */

import { duration, timeOfDay } from './format';
import { MOST_S, unknown, type Incident } from './incident';
import type { Interval } from './interval';

/** What was asked for of an earlier time. */
interface Record {
  data: Incident | null;
  problem: string | null;
}

/** A sentence on notices that are missing; empty if none are. `since_s`: from when on the page has
 * all of them; null if it has none yet. */
export function lackOf(
  { from_s, to_s }: Interval,
  since_s: number | null,
  record: Record | null,
): string {
  if (since_s === null || from_s >= since_s) return '';
  if (record === null) {
    const from = Number.isFinite(since_s) ? `from ${timeOfDay(since_s)} on` : 'as they come';
    const limit =
      to_s - from_s > MOST_S ? `, earlier ones in a zoom of ${duration(MOST_S)} at most` : '';
    return `Notices are shown ${from}${limit}.`;
  }
  if (record.data === null) {
    return record.problem === null
      ? 'Earlier notices are asked for.'
      : `Earlier notices cannot be shown: ${record.problem}`;
  }
  const told = unknown(record.data).map(
    (gap) => `${timeOfDay(gap.from_s)} to ${timeOfDay(gap.to_s)} (${gap.why})`,
  );
  if (record.data.events_left_out > 0) told.push(`${record.data.events_left_out} events left out`);
  return told.length > 0 ? `Not all notices are known: ${told.join(', ')}.` : '';
}
