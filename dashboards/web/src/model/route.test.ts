import { expect, test } from 'vitest';

import { flowHash, hashOf, parseRoute, portHash, withInterval } from './route';

test('addresses lead where they say', () => {
  expect(parseRoute('').view).toBe('overview');
  expect(parseRoute('#/fabric').view).toBe('fabric');
  const flows = parseRoute('#/flows?host=10.0.0.0%2F8&offset=100');
  expect([flows.view, flows.query.get('host')]).toEqual(['flows', '10.0.0.0/8']);
});

test('a port has a switch and a number, or it is none', () => {
  const hash = portHash('0000000000000011:2', { span: '1h' });
  const { view, datapath_id, port, query } = parseRoute(hash);
  expect([view, datapath_id, port]).toEqual(['port', '0000000000000011', 2]);
  expect(query.get('span')).toBe('1h');
  for (const wrong of ['#/port/11/2', '#/port/0000000000000011/0', '#/port/../x', '#/nothing']) {
    expect(parseRoute(wrong).view).toBe('overview');
  }
});

test('what is empty is left out', () => {
  expect(hashOf('flows', { host: '', class: 'burst' })).toBe('#/flows?class=burst');
  expect(hashOf('overview')).toBe('#/');
});

test('an interval is put into an address and taken out of it', () => {
  const zoomed = withInterval('#/port/0000000000000011/2?span=1h', { from_s: 1, to_s: 2.5 });
  expect(zoomed).toBe('#/port/0000000000000011/2?span=1h&from=1.000&to=2.500');
  expect(withInterval(zoomed, null)).toBe('#/port/0000000000000011/2?span=1h');
  expect(withInterval('', { from_s: 1, to_s: 2 })).toBe('#/?from=1.000&to=2.000');
});

test('a flow has two ends, or it is none', () => {
  const flow = { src: 'fd00::1', src_port: 80, dst: 'fd00::2', dst_port: 40_000, vlan: null };
  const hash = flowHash(flow);
  expect(hash).toBe('#/flow/fd00::1/80/fd00::2/40000');
  expect([parseRoute(hash).view, parseRoute(hash).flow]).toEqual(['flow', flow]);
  const leg = { ...flow, vlan: 10 };
  expect(flowHash(leg)).toBe('#/flow/fd00::1/80/fd00::2/40000/10');
  expect(parseRoute(flowHash(leg)).flow).toEqual(leg);
  for (const wrong of [
    ...['#/flow', '#/flow/10.0.0.1/80/10.0.0.2', '#/flow/<b>/1/10.0.0.2/2'],
    '#/flow/10.0.0.1/80/10.0.0.2/2/x',
  ]) {
    expect(parseRoute(wrong).view).toBe('overview');
  }
});
