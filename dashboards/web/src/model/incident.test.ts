import { expect, test } from 'vitest';

import { chartsOfPort, chartsOfTotals } from './charts';
import { facts, nothing, noticesText, summary, titleOf, utcText } from './facts';
import {
  fits,
  forceOf,
  incidentHash,
  largeFlows,
  lastPart,
  MOST_S,
  phases,
  unknownFlows,
  portOf,
  sum,
  unknown,
  widened,
  type Incident,
  type Snapshot,
} from './incident';
import { parseRoute } from './route';
import { heldText } from './wording';
import type { Flow, History, Queue, Regulation, SeriesName, Values } from './types';

const PORT = '0000000000000011:3';
const PLACE = { datapath_id: '0000000000000011', port: 3, name: 'leaf1-eth3' };

const history = (begin_s: number, values: Values, step_s = 1): History => ({
  step_s,
  begin_s,
  series: new Proxy({} as Record<SeriesName, Values>, { get: () => values }),
});

const flow = (dst_port: number, volume_bytes: number, more: Partial<Flow> = {}): Flow => ({
  ...{ src: '10.0.0.1', src_port: 80, dst: '10.0.0.2', dst_port, vlan: null, volume_bytes },
  ...{ class: 'burst', counted: true, idle: false, age_s: 1, mss_bytes: 1460, window_scale: 7 },
  ...{ treatment: 'held', ports: [PORT], ...more },
});

const rule = (window_bytes: number, more: Partial<Regulation> = {}): Regulation => ({
  ...{ ...PLACE, scheme: 'weir', capacity_bps: 1e9, buffer_bytes: 65_536, rtt_s: 0.001 },
  ...{ background_flows: 2, burst_flows: 8, idle_flows: 0, mss_bytes: 1460, notice: null },
  ...{ holds: { burst: { window_bytes, credit: null } }, notices: {}, ...more },
});

const snapshot = (at_s: number, more: Partial<Snapshot> = {}): Snapshot => ({
  ...{ at_s, ...PLACE, queue: null, regulation: null, flows: [], ...more },
});

const incident = (more: Partial<Incident> = {}): Incident => ({
  ...{ from_s: 100, to_s: 110, asked_s: 200, version: '0.1.0', port: PLACE },
  ...{ totals: history(100, [10, 10, null, 10]), events: [], events_left_out: 0 },
  ...{ events_from_s: 0, gaps: [], snapshots: [], audit: [] },
  ports: [{ ...PLACE, worst: 'H', notices: 2, history: history(100, [1, 2]) }],
  ...more,
});

test('an address says which part of the time, and of which port', () => {
  const { view, query } = parseRoute(incidentHash({ from_s: 1, to_s: 2.5 }, PORT));
  expect([view, query.get('from'), query.get('to'), portOf(query)]).toEqual([
    'incident',
    '1.000',
    '2.500',
    PORT,
  ]);
  expect(portOf(parseRoute(incidentHash({ from_s: 1, to_s: 2 }, null)).query)).toBeNull();
  for (const wrong of ['11:3', `${PORT}x`, '0000000000000011:0', '<b>:1']) {
    expect(portOf(new URLSearchParams({ port: wrong })), wrong).toBeNull();
  }
});

test('what the page offers by itself is never too long, whatever doubles make of it', () => {
  const rounded = (interval: { from_s: number; to_s: number }) => {
    const { query } = parseRoute(incidentHash(interval, null));
    return { from_s: Number(query.get('from')), to_s: Number(query.get('to')) };
  };
  for (let n = 0; n < 1000; n += 1) {
    const to_s = 1.7e9 + n * 1.2345678;
    expect(fits(rounded(lastPart(to_s, MOST_S)))).toBe(true);
    const wide = widened({ from_s: to_s - 3.6 * n, to_s });
    expect(fits(rounded(wide)), String(n)).toBe(true);
    expect(wide.to_s - wide.from_s).toBeGreaterThanOrEqual(3.6 * n - 1e-5);
  }
  expect(lastPart(1000, 600)).toEqual({ from_s: 400, to_s: 1000 });
  expect(widened({ from_s: 100, to_s: 200 })).toEqual({ from_s: 50, to_s: 250 });
});

test('what is not known is told in order, and only of the time in question', () => {
  const told = unknown(
    incident({
      gaps: [
        { from_s: 105, to_s: 300, why: 'late' },
        { from_s: 0, to_s: 101, why: 'early' },
      ],
      events_from_s: 103,
    }),
  );
  expect(told).toEqual([
    { from_s: 100, to_s: 101, why: 'early' },
    { from_s: 100, to_s: 103, why: 'events from before were not kept' },
    { from_s: 105, to_s: 110, why: 'late' },
  ]);
  expect(unknown(incident({ events_from_s: 100 }))).toEqual([]);
  expect(unknown(incident({ events_from_s: null }))).toEqual([
    { from_s: 100, to_s: 110, why: 'no event was kept' },
  ]);
});

test('flows of all snapshots, the largest first, with what they sent between them', () => {
  const snapshots = [
    snapshot(100, { flows: [flow(1, 1000), flow(2, 9000)] }),
    snapshot(102, {
      flows: [flow(1, 2000, { class: 'background' }), flow(3, 0, { counted: false })],
    }),
    snapshot(104, { flows: [flow(1, 21_000, { class: 'background' })] }),
    snapshot(104, { port: 4, flows: [flow(4, 10)] }),
  ];
  const told = largeFlows(snapshots, PORT);
  expect(told.map((one) => [one.dst_port, one.volume_bytes, one.mean_bps])).toEqual([
    [1, 21_000, 40_000],
    [2, 9000, null],
    [3, null, null],
  ]);
  expect(told[0]).toMatchObject({ classes: ['burst', 'background'], first_s: 100, last_s: 104 });
});

test('flows that are not known are told from none', () => {
  const unknown = snapshot(100, { flows: null });
  const none = snapshot(102, { flows: [] });
  const some = snapshot(104, { flows: [flow(1, 1000)] });
  expect(largeFlows([unknown, none], PORT)).toEqual([]);
  expect(unknownFlows([], PORT)).toContain('There is no snapshot');
  expect(unknownFlows([unknown, unknown], PORT)).toContain('Its flows are not known');
  expect(unknownFlows([none, none], PORT)).toBe('The controller knew of no flows there.');
  expect(unknownFlows([unknown, none], PORT)).toContain(
    'knew of no flows there. In 1 of 2 snapshots its flows are not known',
  );
  expect(unknownFlows([unknown, some, some], PORT)).toContain('In 1 of 3 snapshots');
  expect(unknownFlows([none, some], PORT)).toBeNull();
  expect(largeFlows([unknown, some], PORT)).toHaveLength(1);
});

test('a connection that is another one between the same ends begins anew', () => {
  const snapshots = [
    [100, 9000],
    [102, 1000],
    [104, 3000],
  ].map(([at_s = 0, volume = 0]) => snapshot(at_s, { flows: [flow(1, volume)] }));
  expect(largeFlows(snapshots, PORT)[0]).toMatchObject({ volume_bytes: 3000, mean_bps: 8000 });
  // The rate of the former is not the rate of this one.
  const anew = [...snapshots, snapshot(106, { flows: [flow(1, 10)] })];
  expect(largeFlows(anew, PORT)[0]).toMatchObject({ volume_bytes: 10, mean_bps: null });
});

test('a phase lasts while scheme and windows are the same', () => {
  const snapshots = [
    snapshot(100, { regulation: rule(14_600) }),
    snapshot(102, { regulation: rule(14_600, { burst_flows: 32 }) }),
    snapshot(104),
    snapshot(106, { regulation: rule(2920) }),
    snapshot(108, { regulation: rule(2920, { scheme: 'sdtcp' }) }),
  ];
  const told = phases(snapshots, PORT);
  expect(
    told.map(({ from_s, to_s, burst, rule: { scheme } }) => [from_s, to_s, burst, scheme]),
  ).toEqual([
    [100, 102, [8, 32], 'weir'],
    [106, 106, [8, 8], 'weir'],
    [108, 108, [8, 8], 'sdtcp'],
  ]);
});

test('sums count what is known, and of a step what is inside', () => {
  const told = history(100, [1, null, 3]);
  expect(sum(told, 'held_per_s', { from_s: 100.5, to_s: 103 })).toEqual({
    ...{ value: 3.5, known_s: 1.5, of_s: 2.5 },
  });
  expect(sum(told, 'held_per_s', { from_s: 101, to_s: 102 })).toBeNull();
  expect(sum(history(100, [2], 10), 'held_per_s', { from_s: 0, to_s: 200 })).toEqual({
    ...{ value: 20, known_s: 10, of_s: 200 },
  });
});

test('limits are the last that were told within the time', () => {
  const queue = { limit_bytes: 65_536, rate_bps: 1e8 } as Queue;
  const events = [{ event: 'queue_event', switch: 0x11, port: 3, limit_bytes: 32_768 }];
  expect(forceOf(incident({ events }), PORT)).toMatchObject({
    limit_bytes: 32_768,
    capacity_bps: null,
  });
  const snapshots = [snapshot(100, { queue }), snapshot(102, { regulation: rule(0) })];
  expect(forceOf(incident({ events, snapshots }), PORT)).toMatchObject({
    limit_bytes: 65_536,
    capacity_bps: 1e8,
  });
});

test('a port that was asked for has more charts than others', () => {
  const told = incident();
  const [port] = told.ports;
  if (port === undefined) throw new Error('it has one');
  const titles = (of: Incident): string[] => chartsOfPort(of, port).map(({ title }) => title);
  expect(titles({ ...told, port: null })).toEqual(['Queue', 'Sent']);
  expect(titles(told)).toHaveLength(5);
  expect(chartsOfTotals(told)).toHaveLength(4);
});

test('the head says where, when, of which Weir, and by whom', () => {
  const made = { by: 'token ops', at_s: 200, weir: 'weir.example:8181' };
  const told = Object.fromEntries(facts(incident(), made));
  expect(told['UTC']).toBe('1970-01-01 00:01:40.000 to 00:01:50.000 UTC');
  expect(told['Weir']).toBe('controller 0.1.0, weir.example:8181');
  expect(told['Report']).toContain('by token ops');
  expect(titleOf(incident({ port: null }))).toBe('Incident in the fabric');
  expect(utcText({ from_s: 86_399, to_s: 86_401.5 })).toBe(
    '1970-01-01 23:59:59.000 to 1970-01-02 00:00:01.500 UTC',
  );
});

test('what happened is told in sentences', () => {
  const told = summary(
    incident({ events_left_out: 12, gaps: [{ from_s: 1, to_s: 105, why: '' }] }),
  );
  expect(told).toContain('leaf1-eth3 had 2 notices, at worst CN-H.');
  expect(told).toContain(
    'Weir held 30 of 30 requests (100 %), for 1 s on average (3 s of 10 s are known).',
  );
  expect(told).toContain('12 events are left out, of other ports first.');
  expect(told).toContain('A part of the time is not known.');
  const quiet = summary(incident({ ports: [], totals: history(100, [null]) }));
  expect(quiet).toEqual(['No port had a notice.']);
});

test('what Weir did says of how much of the time it is known', () => {
  expect(heldText(history(100, [1, null]), { from_s: 100, to_s: 102 })).toBe(
    '1 requests were held, for 1 s in all (1 s of 2 s are known). 1 packets were dropped (1 s of 2 s are known).',
  );
  expect(heldText(history(100, [1, 1]), { from_s: 100, to_s: 102 })).toBe(
    '2 requests were held, for 2 s in all. 2 packets were dropped.',
  );
  expect(heldText(history(100, [null]), { from_s: 100, to_s: 102 })).toBe(
    'How many requests were held is not known.',
  );
});

test('where something is not known, nothing is said not to have been', () => {
  const gap = { from_s: 100, to_s: 101, why: 'away' };
  const port = { ...PLACE, worst: null, notices: 0, history: history(100, [1]) };
  const dark = incident({ ports: [port], gaps: [gap, { ...gap, from_s: 104, to_s: 105 }] });
  expect(summary(dark)).toContain('No notice is known of.');
  expect(summary(dark)).toContain('2 parts of the time are not known.');
  expect(noticesText(dark, port)).toBe('no notice is known of');
  expect(nothing(dark).changes).toBe('No change is known of this time.');
  const known = incident({ ports: [port] });
  expect(noticesText(known, port)).toBe('0 notices');
  expect(nothing(known).changes).toBe('Nothing was changed in this time.');
});

test('flows of older recordings have no VLAN', () => {
  const { vlan: _, ...older } = flow(1, 100);
  const [found] = largeFlows([snapshot(1, { flows: [older as Flow] })], PORT);
  expect(found?.vlan).toBeNull();
});
