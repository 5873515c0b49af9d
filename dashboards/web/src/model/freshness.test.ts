import { expect, test } from 'vitest';

import { answeredAt_ms, isStale, NEVER, pause_ms, silent_s } from './freshness';

const answered = (at_ms: number) => ({ at_ms, problem: null });

test('values are live for three seconds', () => {
  expect(isStale(answered(1000), 4000)).toBe(false);
  expect(isStale(answered(1000), 4001)).toBe(true);
  expect(silent_s(answered(1000), 4500)).toBe(3.5);
});

test('a problem does not make a fresh value stale, but one that never came', () => {
  expect(isStale({ at_ms: 1000, problem: 'no route' }, 1500)).toBe(false);
  expect(isStale({ at_ms: null, problem: 'no route' }, 1500)).toBe(true);
  expect(isStale(NEVER, 1e9)).toBe(false);
  expect(silent_s(NEVER, 1)).toBeNull();
});

test('questions come less often while nobody answers, or answers take long', () => {
  expect(pause_ms(1000, 0, 10)).toBe(1000);
  expect(pause_ms(1000, 1, 10)).toBe(2000);
  expect(pause_ms(1000, 20, 10)).toBe(5000);
  expect(pause_ms(1000, 0, 300)).toBe(1200);
  expect(pause_ms(30_000, 3, 0)).toBe(30_000);
});

test('a server that is slow is not taken for one that is silent', () => {
  for (const took_ms of [500, 900, 1000]) {
    const pause = pause_ms(500, 0, took_ms);
    expect(isStale(answered(0), pause + took_ms)).toBe(false);
  }
  expect(pause_ms(500, 0, 60_000)).toBe(2000);
});

test('an answer that was long on its way may be as old as its question', () => {
  expect(answeredAt_ms(1000, 1500)).toBe(1500);
  expect(answeredAt_ms(1000, 9000)).toBe(1000);
});
