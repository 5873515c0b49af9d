import { expect, test } from 'vitest';

import { filtered, joined, jsonLines, keyOf, kindOf, MISSED, placeOf, Tail, told } from './events';
import type { WeirEvent } from './types';

const event = (serial: number, wall_s = serial, more: object = {}): WeirEvent => ({
  serial,
  event: 'link_up',
  wall_s,
  ...more,
});

const NOTICE: WeirEvent = {
  serial: 9,
  event: 'queue_event',
  wall_s: 9,
  switch: 17,
  port: 2,
  notice: 'CN-H',
  packets: 40,
  bytes: 61_440,
  limit_bytes: 65_536,
  burst: 32,
  background: 1,
};

test('each event once, in the order in which they happened', () => {
  const tail = new Tail();
  expect(tail.take([event(3), event(4)])).toBe(true);
  expect(tail.take([event(1), event(2), event(3)])).toBe(true);
  expect(tail.take([event(4)])).toBe(false);
  expect(tail.events.map((one) => one.serial)).toEqual([1, 2, 3, 4]);
});

test('serial numbers that begin anew are other events', () => {
  const tail = new Tail();
  tail.take([event(1, 10), event(2, 11)]);
  expect(tail.take([event(1, 20)])).toBe(true);
  expect(tail.events.map((one) => one.wall_s)).toEqual([10, 11, 20]);
});

test('the oldest are forgotten', () => {
  const tail = new Tail();
  for (let serial = 1; serial <= 5100; serial += 50) {
    tail.take(Array.from({ length: 50 }, (_, n) => event(serial + n)));
  }
  expect(tail.events.length).toBe(5000);
  expect(tail.events[0]?.serial).toBe(101);
});

test('events in words', () => {
  expect(told(NOTICE)).toBe('CN-H at 60 KiB of 64 KiB, 40 packets; 32 burst, 1 background flows');
  expect(placeOf(NOTICE)).toBe('0000000000000011:2');
  expect(told({ event: 'regulation_off', by: 'user <b>', for_s: 1800 })).toBe(
    'by user <b>, for 30 min',
  );
  expect(told({ event: 'regulation_on', switch: 17, port: 'eth1', by: 'expiry' })).toBe(
    'eth1, by expiry',
  );
  expect(told({ event: 'regulation_off', switch: null, port: null, by: 'token a' })).toBe(
    'everywhere, by token a',
  );
  expect(told({ event: 'new', switch: 17, wall_s: 1, x: [1], y: null })).toBe('x: [1], y: null');
  expect(placeOf({ event: 'switch_up', switch: '18446744073709551615' })).toBe('ffffffffffffffff');
  expect(placeOf({ event: 'start' })).toBe('');
});

test('filters', () => {
  const all = [event(1), NOTICE];
  expect(kindOf(NOTICE)).toBe('notices');
  expect(filtered(all, { kind: 'notices', text: '' })).toEqual([NOTICE]);
  expect(filtered(all, { kind: '', text: '11:2 cn-h' })).toEqual([NOTICE]);
  expect(filtered(all, { kind: 'fabric', text: 'cn-h' })).toEqual([]);
});

test('a file has a line of JSON for each', () => {
  const lines = jsonLines([event(1), NOTICE]).split('\n');
  expect(lines.length).toBe(3);
  expect(JSON.parse(lines[1] ?? '')).toEqual(NOTICE);
});

test('what was recorded and what has come since is told once', () => {
  const [a, b, c] = [1, 2, 3].map((serial) => ({ event: 'x', serial, wall_s: serial }));
  if (!a || !b || !c) throw new Error('there are three');
  expect(joined([a, { ...b }], [b, c])).toEqual([a, b, c]);
  expect(joined([], [b])).toEqual([b]);
});

test('each notice that events were missed is told, where they are missing', () => {
  const tail = new Tail();
  tail.take([event(1), event(2)]);
  tail.take([{ event: MISSED, missed: 7 }, event(10)]);
  tail.take([event(11), { event: MISSED, missed: 7 }]);
  tail.take([event(19)]);
  const all = tail.events;
  expect(all.map((one) => one.serial ?? one.wall_s)).toEqual([1, 2, 2, 10, 11, 11, 19]);
  expect(new Set(all.map(keyOf)).size).toBe(7);
  // One has come before all else.
  const first = new Tail();
  first.take([{ event: MISSED, missed: 1 }, event(5)]);
  expect(first.events.map((one) => one.event)).toEqual([MISSED, 'link_up']);
});

test('no filter hides that events were missed', () => {
  const hole = { event: MISSED, missed: 7, wall_s: 2 };
  expect(filtered([event(1), hole], { kind: 'notices', text: 'cn-h' })).toEqual([hole]);
});

test('what was recorded stands where it happened', () => {
  expect(joined([event(3)], [event(1), event(5)]).map((one) => one.serial)).toEqual([1, 3, 5]);
});
