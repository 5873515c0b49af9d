import { expect, test } from 'vitest';

import { Announced, left_bps, narrowest, portOfLink } from './shares';
import type { Share } from './types';

const share = (flow: string, rate_bps: number | null, src: string | null = '10.0.0.1'): Share => ({
  flow,
  src,
  dst: src === null ? null : '10.0.0.2',
  most_bps: null,
  rate_bps,
  narrowest: null,
  dscp: null,
});

test('the largest share comes first, and who is gone does not come', () => {
  const announced = new Announced();
  announced.take([share('a', 1), share('b', 3), share('c', null), share('d', 3)]);
  expect(announced.flows.map((one) => one.flow)).toEqual(['b', 'd', 'a', 'c']);
  announced.take([share('b', null, null), share('a', 9), share('unheard of', null, null)]);
  expect(announced.flows.map((one) => one.flow)).toEqual(['a', 'd', 'c']);
});

test('an uplink is a link of its port', () => {
  expect(portOfLink('uplink 0000000000000011:3')).toEqual({
    port: '0000000000000011:3',
    uplink: true,
  });
  expect(portOfLink('0000000000000011:3').uplink).toBe(false);
});

test('the narrowest link is the one that has least left', () => {
  const links = [
    { link: 'a', capacity_bps: 100, used_bps: null, error_bps: null },
    { link: 'unmeasured', capacity_bps: 0, used_bps: null, error_bps: null },
    { link: 'b', capacity_bps: 1000, used_bps: 950, error_bps: 10 },
    { link: 'c', capacity_bps: 10, used_bps: 20, error_bps: 1 },
  ];
  expect(links.map(left_bps)).toEqual([100, 0, 50, 0]);
  expect(narrowest(links)?.link).toBe('c');
  expect(narrowest(links.slice(0, 3))?.link).toBe('b');
  expect(narrowest(links.slice(0, 2))?.link).toBe('unmeasured');
  expect(narrowest([])).toBeUndefined();
});
