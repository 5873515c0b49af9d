/** A chart as lines and texts of a drawing, for paper and files. Measures are in pixels. */

import type { ChartOf } from './charts';
import { tickText, type Interval } from './interval';
import { within, type NoticeName } from './notices';

export const WIDTH = 760;
export const HEIGHT = 180;
const [LEFT, RIGHT, TOP, BOTTOM] = [88, WIDTH - 8, 14, HEIGHT - 20];
/** Between the lowest and the highest value of a few samples nobody sees another. */
const MOST_COLUMNS = RIGHT - LEFT;

export interface Figure {
  lines: { path: string; colour: string }[];
  limits: { y: number; label: string; colour: string }[];
  notices: { x: number; y: number; name: NoticeName }[];
  across: { x: number; text: string }[];
  up: { y: number; text: string }[];
  box: { left: number; right: number; top: number; bottom: number };
}

const SECONDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60];
const MINUTES = [2, 5, 10, 15, 30, 60, 120, 360, 720, 1440].map((n) => n * 60);

/** Values that are easily read, from 0 or `low` to `high`, about `wanted` of them. */
function steps(low: number, high: number, size: number): number[] {
  const told: number[] = [];
  for (let at = Math.ceil(low / size); at * size <= high; at += 1) told.push(at * size);
  return told;
}

function roundSize(rough: number, binary: boolean): number {
  if (binary) return 2 ** Math.max(0, Math.ceil(Math.log2(rough)));
  const power = 10 ** Math.floor(Math.log10(rough));
  return ([1, 2, 5, 10].find((n) => n * power >= rough) ?? 10) * power;
}

export function figure(chart: ChartOf, { from_s, to_s }: Interval): Figure {
  const notices = within(chart.notices, from_s, to_s);
  let most = 0;
  for (const { value } of chart.limits) most = Math.max(most, value);
  for (const { bytes } of notices) most = Math.max(most, bytes);
  for (const { values } of chart.lines)
    for (const value of values) most = Math.max(most, value ?? 0);
  most = most > 0 ? most * 1.08 : 1;
  const x = (at_s: number): number =>
    round(LEFT + ((at_s - from_s) / (to_s - from_s)) * (RIGHT - LEFT));
  const y = (value: number): number => round(BOTTOM - (value / most) * (BOTTOM - TOP));
  const span_s = to_s - from_s;
  const every_s = [...SECONDS, ...MINUTES].find((size) => span_s / size <= 8) ?? 86_400;
  return {
    lines: chart.lines.map(({ values, colour }) => ({
      ...{ colour },
      path: path(chart.times, values, from_s, to_s, x, y),
    })),
    limits: chart.limits.map(({ value, label, colour }) => ({
      ...{ y: y(value), label },
      colour: colour ?? 'muted',
    })),
    notices: notices.map(({ at_s, bytes, name }) => ({ x: x(at_s), y: y(bytes), name })),
    across: steps(from_s, to_s, every_s).map((at_s) => ({
      ...{ x: x(at_s) },
      text: tickText(at_s, every_s),
    })),
    up: steps(0, most, roundSize(most / 4, chart.binary)).map((value) => ({
      ...{ y: y(value) },
      text: chart.format(value),
    })),
    box: { left: LEFT, right: RIGHT, top: TOP, bottom: BOTTOM },
  };
}

const round = (value: number): number => Math.round(value * 10) / 10;

/** A line that breaks off where a value is not known. Of many values in one column, the lowest and
 * the highest are drawn. */
function path(
  times: readonly number[],
  values: readonly (number | null)[],
  from_s: number,
  to_s: number,
  x: (at_s: number) => number,
  y: (value: number) => number,
): string {
  const inside = times.flatMap((at_s, n) => {
    const close = at_s >= from_s || (times[n + 1] ?? -Infinity) > from_s;
    return close && (at_s <= to_s || (times[n - 1] ?? Infinity) < to_s) ? [n] : [];
  });
  const each = Math.max(1, Math.ceil((2 * inside.length) / MOST_COLUMNS));
  let told = '';
  let run = 0;
  const end = (): void => {
    // One sample alone is a dot.
    if (run === 1) told += 'h0';
    run = 0;
  };
  for (let first = 0; first < inside.length; first += each) {
    const column = inside.slice(first, first + each);
    const known = column.filter((n) => values[n] != null);
    const low = known.reduce((a, b) => (value(b) < value(a) ? b : a), known[0] ?? 0);
    const high = known.reduce((a, b) => (value(b) > value(a) ? b : a), known[0] ?? 0);
    const drawn =
      known.length === 0 ? [] : low === high ? [low] : [low, high].sort((a, b) => a - b);
    for (const n of drawn) {
      told += `${run > 0 ? 'L' : 'M'}${x(times[n] ?? 0)} ${y(value(n))}`;
      run += 1;
    }
    if (known.length < column.length) end();
  }
  end();
  return told;

  function value(n: number): number {
    return values[n] ?? 0;
  }
}
