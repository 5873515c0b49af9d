import { expect, test } from 'vitest';

import { loadText, stallText, standbyText } from './controller';
import type { Controller } from './types';

const told = (more: Partial<Controller> = {}): Controller => ({
  ready: true,
  detail: null,
  version: '1',
  age_s: 0.2,
  ...more,
});

test('what an older API does not tell is told so', () => {
  expect(loadText(told())).toBe('not told');
  expect(stallText(told()).worst).toBe('not told');
  expect(standbyText(told())).toBe('not told');
  expect(loadText(told({ load: null }))).toBe('not told');
});

test('load is a share of a core', () => {
  expect(loadText(told({ load: 0.043 }))).toBe('4.3 % of a core');
});

test('stalls are told by their bounds', () => {
  const stalls = (p99: number | null, worst: number | null) =>
    stallText(told({ load: 0.1, loop_late_s: { p99, worst } }));
  expect(stalls(0.001, 0.025)).toEqual({ worst: '≤ 25 ms', mostly: '99 % ≤ 1 ms' });
  expect(stalls(0.05, null)).toEqual({ worst: '> 100 ms', mostly: '99 % ≤ 50 ms' });
  expect(stalls(null, null)).toEqual({ worst: '> 100 ms', mostly: '' });
});

test('who could take over is named, and who could not', () => {
  expect(standbyText(told({ rank: 'alone', peers: [], silent: [] }))).toBe('none configured');
  expect(standbyText(told({ rank: 'master', peers: ['b'], silent: [] }))).toBe('master; hears b');
  expect(standbyText(told({ rank: 'master', peers: [], silent: ['b', 'c'] }))).toBe(
    'master; does not hear b, c',
  );
  expect(standbyText(told({ rank: 'alone', peers: [], silent: ['b'] }))).toBe(
    'alone; does not hear b',
  );
});
