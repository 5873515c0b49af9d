/** Events for spreadsheets (RFC 4180). */

import { placeOf, told } from './events';
import type { WeirEvent } from './types';

/** A field; what a spreadsheet would take for a formula becomes text. */
export function field(text: string): string {
  // Some drop spaces before a formula; where ";" or a tab parts fields, another begins after it.
  const safe = (/^\s*[=+\-@]|^[\t\r\n]/.test(text) ? `'${text}` : text).replace(
    /([;\t])(?=[=+\-@])/g,
    '$1 ',
  );
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const utc = (wall_s: number | undefined): string =>
  wall_s === undefined ? '' : new Date(wall_s * 1000).toISOString();

export function csv(events: readonly WeirEvent[]): string {
  const rows = events.map((event) => [
    utc(event.wall_s),
    event.event,
    placeOf(event),
    told(event),
    JSON.stringify(event),
  ]);
  // Without the mark at its beginning, Excel takes UTF-8 for something else.
  return `\ufeff${[['time', 'event', 'where', 'what', 'json'], ...rows]
    .map((row) => `${row.map(field).join(',')}\r\n`)
    .join('')}`;
}
