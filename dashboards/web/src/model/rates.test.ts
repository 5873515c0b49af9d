import { expect, test } from 'vitest';

import { capacity_bps, Rates, worstQueue } from './rates';
import type { Port, Queue } from './types';

const queue = (change: Partial<Queue> = {}): Queue => ({
  queue: 0,
  switch_time_ns: 1e9,
  level: 0,
  queue_bytes: 0,
  queue_packets: 0,
  max_queue_bytes: 0,
  limit_bytes: 65_536,
  rate_bps: 1e8,
  sent_bytes: 0,
  dropped_packets: 0,
  marked_packets: 0,
  can_have_account: true,
  account: null,
  ...change,
});

const port = (...queues: Queue[]): Port => ({
  datapath_id: '0000000000000001',
  port: 1,
  name: 's1-eth1',
  up: true,
  speed_bps: 1e9,
  peer: null,
  link_rtt_s: null,
  hosts: 0,
  queues,
  tcp: null,
});

const ID = '0000000000000001:1';

test('a rate takes two readings', () => {
  const rates = new Rates();
  rates.take([port(queue({ sent_bytes: 1000 }))]);
  expect(rates.of(ID)).toBeNull();
  rates.take([port(queue({ sent_bytes: 1_001_000, switch_time_ns: 2e9 }))]);
  expect(rates.of(ID)).toBe(8e6);
});

test('a reading that has not been renewed changes nothing, a switch that starts anew does', () => {
  const rates = new Rates();
  rates.take([port(queue())]);
  rates.take([port(queue({ sent_bytes: 125, switch_time_ns: 2e9 }))]);
  rates.take([port(queue({ sent_bytes: 125, switch_time_ns: 2e9 }))]);
  expect(rates.of(ID)).toBe(1000);
  rates.take([port(queue({ sent_bytes: 0, switch_time_ns: 1e6 }))]);
  expect(rates.of(ID)).toBeNull();
});

test('what a switch no longer renews is not believed for ever', () => {
  const rates = new Rates();
  const last = port(queue({ sent_bytes: 125, switch_time_ns: 2e9 }));
  rates.take([port(queue())], 0);
  rates.take([last], 1000);
  rates.take([last], 6000);
  expect(rates.of(ID)).toBe(1000);
  rates.take([last], 7001);
  expect(rates.of(ID)).toBeNull();
});

test('the worst queue speaks for its port', () => {
  const worst = queue({ queue: 1, level: 2 });
  expect(worstQueue(port(queue({ queue_bytes: 9 }), worst))).toBe(worst);
  expect(worstQueue(port())).toBeUndefined();
});

test('a queue may be slower than its port', () => {
  expect(capacity_bps(port(queue()))).toBe(1e8);
  expect(capacity_bps(port())).toBe(1e9);
});
