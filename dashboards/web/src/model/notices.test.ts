import { expect, test } from 'vitest';

import { counted, meaning, noticesOf, thresholds, thresholdsText, within, worst } from './notices';
import type { Queue, WeirEvent } from './types';

const PORT = '0000000000000011:3';

const notice = (name: string, wall_s: number, more: object = {}): WeirEvent => ({
  event: 'queue_event',
  port: PORT,
  wall_s,
  notice: name,
  bytes: 61_440,
  burst: 32,
  ...more,
});

test('the notices of a port, and of no other', () => {
  const events = [
    notice('CN-L', 1),
    notice('CN-H', 2, { port: '0000000000000011:4' }),
    notice('CR', 3),
    { event: 'link_up', wall_s: 4 },
    notice('CN-X', 5),
    notice('CN-H', 6, { bytes: 'many' }),
  ];
  expect(noticesOf(events, PORT)).toEqual([
    { name: 'CN-L', at_s: 1, bytes: 61_440, burst: 32 },
    { name: 'CR', at_s: 3, bytes: 61_440, burst: 32 },
  ]);
});

test('the clock of the switch says how far apart they were', () => {
  // Sent 10 ms apart, and under way for 1, 0.2 and 30 ms.
  const events = [
    notice('CN-L', 100.001, { switch_time_ns: 5.0e9 }),
    notice('CN-M', 100.0102, { switch_time_ns: 5.01e9 }),
    notice('CN-H', 100.05, { switch_time_ns: 5.02e9 }),
  ];
  const [low, mid, high] = noticesOf(events, PORT).map(({ at_s }) => at_s);
  expect(low).toBeCloseTo(100.0002, 6);
  expect(mid).toBeCloseTo(100.0102, 6);
  expect(high).toBeCloseTo(100.0202, 6);
});

test('a clock that begins anew is not followed', () => {
  const events = [
    notice('CN-H', 100, { switch_time_ns: 5e9 }),
    notice('CN-H', 160, { switch_time_ns: 1e9 }),
  ];
  expect(noticesOf(events, PORT).map(({ at_s }) => at_s)).toEqual([100, 160]);
});

test('what a legend says', () => {
  const notices = noticesOf(
    [notice('CR', 1), notice('CN-L', 2), notice('CR', 3), notice('CN-M', 4)],
    PORT,
  );
  expect(counted(notices)).toEqual([
    ['CN-M', 1],
    ['CN-L', 1],
    ['CR', 2],
  ]);
  expect(worst(notices)).toBe('M');
  expect(worst(within(notices, 3, 3.5))).toBe(null);
  expect(within(notices, 2, 3).map(({ name }) => name)).toEqual(['CN-L', 'CR']);
});

test('thresholds have names and lengths, or there are none', () => {
  const told = thresholds({ low_bytes: 16_384, mid_bytes: 32_768, high_bytes: 49_152 });
  expect(told.map(({ label }) => label)).toEqual(['L 16 KiB', 'M 32 KiB', 'H 48 KiB']);
  expect(thresholds(null)).toEqual([]);
  expect(thresholds(undefined)).toEqual([]);
});

test('thresholds are written in their unit', () => {
  const levels = { low_bytes: 16_384, mid_bytes: 32_768, high_bytes: 49_152 };
  const packet_levels = { low_packets: 10, mid_packets: 20, high_packets: 30 };
  const queue = (told: Partial<Queue>) => told as Queue;
  expect(thresholdsText(queue({ levels, packet_levels: null }))).toBe(
    'L 16 KiB, M 32 KiB, H 48 KiB',
  );
  expect(thresholdsText(queue({ levels: null, packet_levels }))).toBe('L 10, M 20, H 30 packets');
  expect(thresholdsText(queue({ levels: null, packet_levels: null }))).toBe(null);
  expect(thresholdsText(queue({}))).toBe(null);
});

test('what the thresholds are for is told with their values', () => {
  const levels = { low_bytes: 16_384, mid_bytes: 32_768, high_bytes: 49_152 };
  const packet_levels = { low_packets: 10, mid_packets: 20, high_packets: 30 };
  const told = (queue: Partial<Queue>) => meaning(queue as Queue);
  expect(told({ levels, packet_levels: null })).toContain(
    'reaches L (16 KiB) has its switch send CN-L, at M (32 KiB) CN-M, at H (48 KiB) CN-H, and CR',
  );
  expect(told({ levels: null, packet_levels })).toContain('M (20 packets)');
  expect(told({ levels: null, packet_levels: null })).toBe(null);
  expect(told({})).toBe(null);
});
