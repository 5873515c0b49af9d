import { expect, test } from 'vitest';

import {
  between,
  fieldOf,
  intervalOf,
  intervalText,
  LEAST_S,
  momentOf,
  queryOf,
  tickText,
  whenText,
  zones,
} from './interval';

const at = (text: string): number => Date.parse(text) / 1000;

/** Do something where clocks are those of a time zone. */
function inZone(name: string, what: () => void): void {
  const { env } = (globalThis as unknown as { process: { env: Record<string, string> } }).process;
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  env['TZ'] = name;
  try {
    what();
  } finally {
    env['TZ'] = own;
  }
}

test('an address says an interval, or none', () => {
  const interval = { from_s: 1764044401.25, to_s: 1764044402 };
  expect(queryOf(interval)).toEqual({ from: '1764044401.250', to: '1764044402.000' });
  expect(intervalOf(new URLSearchParams(queryOf(interval)))).toEqual(interval);
  for (const wrong of [
    '',
    'from=1',
    'from=2&to=1',
    'from=1&to=1',
    'from=a&to=2',
    'from=1&to=1e9',
  ]) {
    expect(intervalOf(new URLSearchParams(wrong)), wrong).toBe(null);
  }
});

test('what is picked has two ends in order and some length', () => {
  expect(between(5, 3)).toEqual({ from_s: 3, to_s: 5 });
  const { from_s, to_s } = between(3, 3);
  expect(to_s - from_s).toBeCloseTo(LEAST_S);
});

test('an interval in words, in local time', () => {
  const from_s = at('2026-11-25T04:20:01');
  expect(intervalText({ from_s, to_s: from_s + 30 })).toBe(
    '2026-11-25 04:20:01 to 04:20:31 (30 s)',
  );
  expect(intervalText({ from_s, to_s: from_s + 0.25 })).toBe(
    '2026-11-25 04:20:01.000 to 04:20:01.250 (250 ms)',
  );
  expect(intervalText({ from_s, to_s: from_s + 86_400 })).toBe(
    '2026-11-25 04:20:01 to 2026-11-26 04:20:01 (1 d)',
  );
});

test('a field holds a moment to the millisecond', () => {
  const moment_s = at('2026-11-25T04:20:01.250');
  expect(fieldOf(moment_s)).toBe('2026-11-25T04:20:01.250');
  expect(momentOf(fieldOf(moment_s))).toBe(moment_s);
  expect(momentOf('')).toBe(null);
  expect(momentOf('2026-13-45T99:99')).toBe(null);
});

test('a moment has its day where that is another one', () => {
  const moment_s = at('2026-11-25T04:20:01.250');
  expect(whenText(moment_s, '2026-11-25')).toBe('04:20:01');
  expect(whenText(moment_s, '2026-11-26', true)).toBe('2026-11-25 04:20:01.250');
});

test('of two moments of which clocks say the same, a field says the nearer', () => {
  // Europe's summer time of 2026 ended at 01:00 UTC of October 25.
  const end_s = Date.parse('2026-10-25T01:00Z') / 1000;
  inZone('Europe/Berlin', () => {
    const [first, second] = [end_s - 600, end_s + 3000];
    expect(fieldOf(first)).toBe(fieldOf(second));
    for (const moment_s of [first, second]) {
      expect(momentOf(fieldOf(moment_s), moment_s)).toBe(moment_s);
    }
    expect(zones({ from_s: first, to_s: second })).toBe('UTC+02:00 to UTC+01:00');
    expect(zones({ from_s: second, to_s: second + 9 })).toBe('UTC+01:00');
  });
});

test('ticks say as much as tells them apart', () => {
  const moment_s = at('2026-11-25T04:20:01.250');
  expect(tickText(moment_s, 86_400)).toMatch(/^\d\d-\d\d$/);
  expect(tickText(moment_s, 60)).toBe('04:20');
  expect(tickText(moment_s, 5)).toBe('04:20:01');
  expect(tickText(moment_s, 0.5)).toBe('04:20:01.2');
  expect(tickText(moment_s - 1e-7, 0.01)).toBe('04:20:01.25');
  expect(tickText(moment_s, 0.001)).toBe('04:20:01.250');
});
