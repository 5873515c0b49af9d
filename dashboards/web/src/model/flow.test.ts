import { expect, test } from 'vitest';

import { FlowRate, least } from './flow';
import type { Hop } from './types';

const at = (age_s: number, volume_bytes: number, counted = true) => ({
  age_s,
  volume_bytes,
  counted,
});

test('a rate is that of the last ten seconds', () => {
  const rate = new FlowRate();
  rate.take(at(100, 0));
  expect(rate.bps).toBeNull();
  rate.take(at(100, 0));
  rate.take(at(100.5, 50_000));
  expect(rate.bps).toBeNull();
  rate.take(at(101, 125_000));
  expect(rate.bps).toBe(1e6);
  for (let second = 102; second <= 120; second += 1) rate.take(at(second, 125_000));
  expect(rate.bps).toBe(0);
});

test('another connection between the same ports begins anew', () => {
  const rate = new FlowRate();
  rate.take(at(100, 0));
  rate.take(at(102, 1_000_000));
  rate.take(at(0.5, 0));
  expect(rate.bps).toBeNull();
  rate.take(at(2.5, 250_000));
  expect(rate.bps).toBe(1e6);
  rate.take(at(3, 0, false));
  expect(rate.bps).toBeNull();
});

test('a volume that shrinks gives no negative rate', () => {
  const rate = new FlowRate();
  rate.take(at(100, 1_000_000));
  rate.take(at(102, 10));
  expect(rate.bps).toBeNull();
});

test('the least is found where there is one', () => {
  const hop = (port: string, window_bytes: number | null): Hop => ({
    port,
    name: port,
    up: true,
    scheme: 'weir',
    notice: null,
    capacity_bps: null,
    rtt_s: null,
    hold: window_bytes === null ? null : { window_bytes, credit: null },
    queue: null,
  });
  const hops = [hop('a', 0), hop('b', 3000), hop('c', 2000), hop('d', null)];
  expect(least(hops, (one) => one.hold?.window_bytes)?.hop.port).toBe('c');
  expect(least(hops, (one) => one.hold?.credit?.bound_bytes)).toBeNull();
});
