import { expect, test } from 'vitest';

import { clockOff, health, toldAt_s } from './health';
import type { CongestedPort, Overview } from './types';

const port: CongestedPort = {
  datapath_id: '0000000000000011',
  port: 2,
  name: 'leaf1-eth2',
  level: 'H',
  queue_bytes: 60_000,
  limit_bytes: 65_536,
  sent_bps: 1e8,
  rate_bps: 1e8,
};

const overview = (change: Partial<Overview> = {}): Overview => ({
  at_s: 1,
  controller: { ready: true, detail: null, version: '1', age_s: 0.2 },
  switches: { ready: 4, known: 4 },
  ports: { with_queue: 8, congested: 0 },
  congested: [],
  totals: {
    sent_bps: 1,
    dropped_per_s: 0,
    timeouts_per_s: 0,
    requests_per_s: 0,
    held_per_s: 0,
    held_s_per_s: 0,
    answer_s: null,
  },
  held_times: { bounds_s: [], counts: [] },
  events_per_minute: 0,
  ...change,
});

test('a healthy fabric', () => {
  expect(health(overview(), [])).toEqual({
    mood: 'good',
    text: 'Healthy: all 4 switches ready, no congested port',
  });
  expect(health(null, []).mood).toBe('unknown');
});

test('what is wrong, the worst first', () => {
  const told = health(
    overview({
      switches: { ready: 3, known: 4 },
      ports: { with_queue: 8, congested: 1 },
      congested: [port],
    }),
    [{ datapath_id: port.datapath_id, port: 'eth2', left_s: null, by: 'user root' }],
  );
  expect(told.mood).toBe('bad');
  expect(told.text).toBe(
    '1 of 4 switches not ready; 1 congested port, worst leaf1-eth2 at CN-H; regulation is off at 1 place',
  );
});

test('light congestion is to be watched, not bad', () => {
  const light = { ...port, level: 'L' as const };
  const told = health(overview({ ports: { with_queue: 8, congested: 2 }, congested: [light] }), []);
  expect(told.mood).toBe('watch');
});

test('a controller that does not answer, and one that is not ready', () => {
  const silent = { ready: true, detail: null, version: '1', age_s: 12 };
  expect(health(overview({ controller: silent }), []).text).toBe(
    'The controller has not answered for 12 s',
  );
  const unready = { ready: false, detail: 'reads the switches', version: '1', age_s: 0 };
  expect(health(overview({ controller: unready }), [])).toEqual({
    mood: 'bad',
    text: 'Reads the switches',
  });
});

test('the time of an answer is that of its sample, and its age', () => {
  const controller = { ready: true, detail: null, version: '1', age_s: 7 };
  expect(toldAt_s(overview({ at_s: 100, controller }))).toBe(107);
  expect(toldAt_s(overview({ at_s: null }))).toBeNull();
});

test('a clock that is off', () => {
  expect(clockOff(1000, 1009)).toBeNull();
  expect(clockOff(0, 3600)).toContain('1 h ahead of');
  expect(clockOff(3600, 0)).toContain('1 h behind');
});

test('a standby that is not heard is told', () => {
  const controller = { ready: true, detail: null, version: '1', age_s: 0.2, silent: ['b'] };
  expect(health(overview({ controller }), [])).toEqual({
    mood: 'watch',
    text: 'Controller b is not heard',
  });
  const two = { ...controller, silent: ['b', 'c'] };
  expect(health(overview({ controller: two }), []).text).toBe('2 controllers are not heard');
});

test('regulation of which nothing is known is not on', () => {
  expect(health(overview(), null)).toEqual({
    mood: 'watch',
    text: 'Where regulation is on is not known',
  });
});
