import { expect, test } from 'vitest';

import { isOff, offHere, placeText } from './bypass';
import type { Bypass } from './types';

const off = (datapath_id: string | null, port: string | null): Bypass => ({
  datapath_id,
  port,
  left_s: null,
  by: 'user root',
});

const A = '000000000000000a';
const ALL = [off(null, null), off(A, null), off(A, 'eth2'), off(A, 'eth3')];

test('a port is off with its switch, and with everything', () => {
  const place = { datapath_id: A, port: 'eth2' };
  expect(offHere(ALL, place)).toEqual(ALL.slice(0, 3));
  expect(offHere(ALL, { datapath_id: A, port: null })).toEqual(ALL.slice(0, 2));
  expect(offHere(ALL, { datapath_id: '000000000000000b', port: null })).toEqual(ALL.slice(0, 1));
});

test('what can be turned on is what was turned off', () => {
  expect(isOff(ALL, { datapath_id: null, port: null })).toBe(true);
  expect(isOff(ALL.slice(0, 2), { datapath_id: A, port: 'eth2' })).toBe(false);
});

test('places in words', () => {
  expect(ALL.slice(0, 3).map(placeText)).toEqual([
    'everything',
    `switch ${A}`,
    `port eth2 of switch ${A}`,
  ]);
});
