import { expect, test } from 'vitest';

import type { Incident } from './incident';
import { lackOf } from './remembered';

const SPAN = { from_s: 1000, to_s: 1010 };
const told = (more: Partial<Incident> = {}): Incident =>
  ({ ...SPAN, gaps: [], events_from_s: 0, events_left_out: 0, ...more }) as Incident;

test('nothing is missing from what the page remembers, or has yet to ask for', () => {
  expect(lackOf(SPAN, 1000, null)).toBe('');
  expect(lackOf(SPAN, null, null)).toBe('');
  expect(lackOf(SPAN, 1005, { data: told(), problem: null })).toBe('');
});

test('what was not asked for is said', () => {
  expect(lackOf(SPAN, 1005, null)).toMatch(/^Notices are shown from \d\d:\d\d:\d\d on\.$/);
  expect(lackOf(SPAN, Infinity, null)).toBe('Notices are shown as they come.');
  const day = { from_s: 0, to_s: 86_400 };
  expect(lackOf(day, 80_000, null)).toContain('on, earlier ones in a zoom of 1 h at most.');
});

test('what was not recorded is said', () => {
  expect(lackOf(SPAN, 1005, { data: null, problem: null })).toContain('asked for');
  expect(lackOf(SPAN, 1005, { data: null, problem: 'No answer.' })).toContain(': No answer.');
  const gaps = [{ from_s: 1001, to_s: 1002, why: 'the API was not running' }];
  const text = lackOf(SPAN, 1005, { data: told({ gaps, events_left_out: 9 }), problem: null });
  expect(text).toMatch(/^Not all notices are known: .* \(the API was not running\), 9 events left/);
});
