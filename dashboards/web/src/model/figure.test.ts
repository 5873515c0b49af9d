import { expect, test } from 'vitest';

import type { ChartOf } from './charts';
import { figure } from './figure';
import { bytes } from './format';
import type { Values } from './types';

const chart = (values: Values, more: Partial<ChartOf> = {}): ChartOf => ({
  ...{ title: 'Queue', times: values.map((_, at) => 100 + at), format: bytes },
  lines: [{ label: 'queue', values, colour: 'blue' }],
  ...{ limits: [], notices: [], binary: true, note: '', ...more },
});
const span = (to_s: number) => ({ from_s: 100, to_s });

test('a line breaks off where a value is not known, and one value alone is a dot', () => {
  const { path = '' } = figure(chart([0, 0, null, 0, null, 0, 0]), span(106)).lines[0] ?? {};
  expect(path.replace(/[\d.]+ [\d.]+/g, '')).toBe('MLMh0ML');
});

test('values just outside lead the line to the edge, others are left out', () => {
  const zoomed = { from_s: 102.5, to_s: 103.5 };
  const { path = '' } = figure(chart([1, 1, 1, 1, 1, 1]), zoomed).lines[0] ?? {};
  expect(path.match(/[ML]/g)).toHaveLength(3);
});

test('of an hour, the highest values are drawn though not all are', () => {
  const values = Array.from({ length: 3600 }, (_, at) => (at === 1801 ? 1000 : 1));
  const told = figure(chart(values), span(3700));
  const { path = '' } = told.lines[0] ?? {};
  const heights = path.match(/ [\d.]+/g)?.map(Number) ?? [];
  expect(heights.length).toBeLessThan(800);
  expect(Math.min(...heights)).toBeCloseTo(told.box.top + (1 - 1 / 1.08) * 146, 0);
});

test('what is drawn besides the line makes room for itself', () => {
  const told = figure(
    chart([10], {
      limits: [{ label: 'limit 64 KiB', value: 65_536 }],
      notices: [
        { name: 'CN-H', at_s: 105, bytes: 50_000, burst: 1 },
        { name: 'CN-L', at_s: 120, bytes: 99_000, burst: 1 },
      ],
    }),
    span(110),
  );
  expect(told.notices.map(({ name }) => name)).toEqual(['CN-H']);
  const highest = told.limits[0]?.y ?? 0;
  expect(highest).toBeGreaterThan(told.box.top);
  expect(told.notices[0]?.y).toBeGreaterThan(highest);
});

test('axes have few steps that are easily read', () => {
  for (const to_s of [100.01, 101, 130, 700, 3700, 86_500]) {
    const { across, up } = figure(chart([65_536]), span(to_s));
    expect(across.length, String(to_s)).toBeGreaterThan(2);
    expect(across.length, String(to_s)).toBeLessThan(11);
    expect(up.map(({ text }) => text)).toEqual(['0 B', '32 KiB', '64 KiB']);
  }
  const decimal = figure(chart([95e6], { binary: false, format: String }), span(110)).up;
  expect(decimal.map(({ text }) => Number(text))).toEqual([0, 5e7, 1e8]);
});

test('of nothing, there is an empty chart', () => {
  const told = figure(chart([]), span(110));
  expect(told.lines[0]?.path).toBe('');
  expect(told.up.length).toBeGreaterThan(0);
});
