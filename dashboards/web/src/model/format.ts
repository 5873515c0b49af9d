/** Numbers, times and addresses as engineers write them. `null` is not known: a dash. */

export const UNKNOWN = '–';

type Known = number | null | undefined;

/** Three significant digits, without an exponent. */
export function digits(value: number): string {
  const size = Math.abs(value);
  if (size >= 100 || value === 0) return String(Math.round(value));
  const places = size >= 10 ? 1 : size >= 0.0995 ? 2 : 3;
  return value.toFixed(places).replace(/\.?0+$/, '');
}

function scaled(value: Known, base: number, units: readonly string[]): string {
  if (value == null || !Number.isFinite(value)) return UNKNOWN;
  let power = 0;
  // What would be written as 1000 goes to the next unit.
  while (power < units.length - 1 && Math.abs(value) >= (base === 1024 ? 1023.5 : 999.5)) {
    value /= base;
    power += 1;
  }
  return `${digits(value)} ${units[power]}`;
}

/** 104 Mb/s */
export const rate = (bps: Known): string =>
  scaled(bps, 1000, ['b/s', 'kb/s', 'Mb/s', 'Gb/s', 'Tb/s']);

/** 64 KiB */
export const bytes = (value: Known): string =>
  scaled(value, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']);

/** 1.2 k, for counts of anything */
export const count = (value: Known): string => scaled(value, 1000, ['', 'k', 'M', 'G']).trimEnd();

/** 12.5/s */
export const perSecond = (value: Known): string => (value == null ? UNKNOWN : `${count(value)}/s`);

export const percent = (part: Known): string =>
  part == null || !Number.isFinite(part) ? UNKNOWN : `${digits(part * 100)} %`;

/** 13.4 ms; from a minute on 2 min 5 s */
export function duration(seconds: Known): string {
  if (seconds == null || !Number.isFinite(seconds)) return UNKNOWN;
  const size = Math.abs(seconds);
  if (size === 0) return '0 s';
  if (size < 0.9995) {
    const ms = size * 1000;
    return ms < 0.9995 ? `${digits(seconds * 1e6)} µs` : `${digits(seconds * 1000)} ms`;
  }
  if (size < 59.95) return `${digits(seconds)} s`;
  return clockwork(Math.round(seconds));
}

const PARTS: readonly [string, number][] = [
  ['d', 86_400],
  ['h', 3600],
  ['min', 60],
  ['s', 1],
];

/** The two largest parts of a time of a minute or more. */
function clockwork(seconds: number): string {
  const first = PARTS.findIndex(([, size]) => seconds >= size);
  let left = seconds;
  const told: string[] = [];
  for (const [unit, size] of PARTS.slice(first, first + 2)) {
    const n = Math.floor(left / size);
    left -= n * size;
    if (n > 0) told.push(`${n} ${unit}`);
  }
  return told.join(' ');
}

/** The local time of day of a moment, to the second or the millisecond. */
export function timeOfDay(wall_s: Known, ms = false): string {
  if (wall_s == null) return UNKNOWN;
  const at = new Date(wall_s * 1000);
  const pad = (n: number, width = 2): string => String(n).padStart(width, '0');
  const whole = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  return ms ? `${whole}.${pad(at.getMilliseconds(), 3)}` : whole;
}

/** The local day and time of day of a moment, to the second: 2026-11-24 22:25:03 */
export function dateTime(wall_s: Known): string {
  if (wall_s == null) return UNKNOWN;
  const at = new Date(wall_s * 1000);
  const pad = (n: number): string => String(n).padStart(2, '0');
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  return `${day} ${timeOfDay(wall_s)}`;
}

/** 2026-11-24 21:25:03 UTC */
export function utc(wall_s: Known): string {
  if (wall_s == null) return UNKNOWN;
  return `${new Date(wall_s * 1000).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

/** The leading zeros of a datapath id, and the rest, so that the rest can stand out. */
export function splitId(datapath_id: string): [string, string] {
  const zeros = /^0*(?=.)/.exec(datapath_id)?.[0] ?? '';
  return [zeros, datapath_id.slice(zeros.length)];
}

/** A host with a port: 10.0.0.1:80, [fd00::1]:80 */
export const endpoint = (address: string, port: number): string =>
  address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
