/** What was in force, and what was changed, in words. */

import { bytes, duration } from './format';
import { stepText } from './settings';
import type { AuditEntry, Regulation } from './types';

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
