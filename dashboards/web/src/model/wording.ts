/** What was in force, and what was changed, in words. */

import { bytes, count, duration } from './format';
import { sum, type Sum } from './incident';
import type { Interval } from './interval';
import { stepText } from './settings';
import type { AuditEntry, History, Regulation } from './types';

export const windowsOf = ({ holds }: Regulation): string =>
  Object.entries(holds)
    .map(
      ([name, { window_bytes }]) =>
        `${name} ${window_bytes === 0 ? 'no limit' : bytes(window_bytes)}`,
    )
    .join('; ') || 'none';

export const creditOf = ({ holds }: Regulation): string =>
  Object.entries(holds)
    .flatMap(([name, { credit }]) =>
      credit === null
        ? []
        : [
            `${name} ${credit.bound_bytes === 0 ? 'by the switch' : bytes(credit.bound_bytes)}, ${duration(credit.max_hold_ms / 1000)}`,
          ],
    )
    .join('; ') || 'none';

/** 3, or 3 to 5. */
export const rangeText = ([few, many]: [number, number]): string =>
  few === many ? String(few) : `${few} to ${many}`;

export const changesOf = ({ changes, detail }: AuditEntry): string =>
  [...changes.map(stepText), ...(detail === '' ? [] : [detail])].join('; ');

/** What is to be known of a sum that is not of all of the time: (3 s of 10 s are known) */
export const partly = ({ known_s, of_s }: Sum): string =>
  // Doubles of seconds since 1970 are rounded.
  of_s - known_s < 0.001 ? '' : ` (${duration(known_s)} of ${duration(of_s)} are known)`;

/** How many requests were held at a port, for how long, and what was dropped all the same. */
export function heldText(history: History, interval: Interval): string {
  const [held, held_s, dropped] = [
    sum(history, 'held_per_s', interval),
    sum(history, 'held_s_per_s', interval),
    sum(history, 'dropped_per_s', interval),
  ];
  const told =
    held === null
      ? 'How many requests were held is not known.'
      : `${count(Math.round(held.value))} requests were held${held_s === null ? '' : `, for ${duration(held_s.value)} in all`}${partly(held)}.`;
  return dropped === null
    ? told
    : `${told} ${count(Math.round(dropped.value))} packets were dropped${partly(dropped)}.`;
}
