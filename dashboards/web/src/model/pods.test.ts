import { describe, expect, test } from 'vitest';

import { layOut, type Edge, type Node } from './fabric';
import { around, find, groupsOf, MOST_DRAWN, summaries, troubled } from './pods';

const id = (n: number): string => n.toString(16).padStart(16, '0');
const node = (n: number, hosts = 0): Node => ({ id: id(n), hosts, edgePorts: hosts });

/** Pods of 2 switches over some leaves each, and spines over all: as fabrics of 1,000 are. */
function pods(count: number, leaves: number, spines: number): [Node[], Edge[]] {
  const nodes: Node[] = [];
  const edges: Edge[] = [];
  for (let spine = 1; spine <= spines; spine += 1) nodes.push(node(spine));
  let next = spines + 1;
  for (let pod = 0; pod < count; pod += 1) {
    const above = [next, next + 1];
    next += 2;
    for (const [n, one] of above.entries()) {
      nodes.push(node(one));
      for (let at = 0; at < 4; at += 1) {
        edges.push([id(one), id(1 + ((pod * 8 + n * 4 + at) % spines))]);
      }
    }
    for (let leaf = 0; leaf < leaves; leaf += 1, next += 1) {
      nodes.push(node(next, leaf < 2 ? 4 : 0));
      for (const one of above) edges.push([id(next), id(one)]);
    }
  }
  return [nodes, edges];
}

function leafSpine(leaves: number, spines: number): [Node[], Edge[]] {
  const nodes: Node[] = [];
  const edges: Edge[] = [];
  for (let n = 1; n <= spines; n += 1) nodes.push(node(n));
  for (let leaf = 0; leaf < leaves; leaf += 1) {
    nodes.push(node(1000 + leaf, 8));
    for (let n = 1; n <= spines; n += 1) edges.push([id(1000 + leaf), id(n)]);
  }
  return [nodes, edges];
}

describe('the groups of a large fabric', () => {
  test('are its pods, and what is above them', () => {
    const [nodes, edges] = pods(24, 38, 40);
    expect(nodes.length).toBe(1000);
    const groups = groupsOf(nodes, edges);
    expect(groups.map(({ name }) => name).slice(0, 3)).toEqual([
      'Switches 1 – 28',
      'Pod 1',
      'Pod 2',
    ]);
    expect(groups.map(({ top, switches }) => [top, switches.length])).toEqual([
      [true, 40],
      ...Array.from({ length: 24 }, () => [false, 40]),
    ]);
  });

  test('are pieces of a leaf-spine, which has no pods', () => {
    const groups = groupsOf(...leafSpine(960, 40));
    expect(groups.filter(({ top }) => top).flatMap(({ switches }) => switches).length).toBe(40);
    expect(groups.every(({ switches }) => switches.length <= 40)).toBe(true);
  });

  test.each([pods(24, 38, 40), leafSpine(960, 40), leafSpine(1, 0), pods(3, 2, 2)])(
    'have each switch once, and can be drawn',
    (nodes, edges) => {
      const groups = groupsOf(nodes, edges);
      const all = groups.flatMap(({ switches }) => switches);
      expect([...all].sort()).toEqual(nodes.map((one) => one.id).sort());
      for (const group of groups) {
        const part = around(group, nodes, edges);
        expect(part.nodes.length).toBeLessThanOrEqual(Math.max(MOST_DRAWN, group.switches.length));
        const { nodes: placed } = layOut(part.nodes, part.edges);
        for (const one of group.switches) expect(placed.has(one)).toBe(true);
      }
    },
  );

  test('do not depend on the order in which switches are told', () => {
    const [nodes, edges] = pods(4, 10, 4);
    expect(groupsOf([...nodes].reverse(), [...edges].reverse())).toEqual(groupsOf(nodes, edges));
  });

  test('there is none without switches', () => expect(groupsOf([], [])).toEqual([]));
});

test('what is above stands above, also when it is shown by itself', () => {
  const [nodes, edges] = pods(4, 10, 4);
  const [top] = groupsOf(nodes, edges);
  const part = around(top!, nodes, edges);
  const { nodes: placed } = layOut(part.nodes, part.edges);
  const y = (n: number): number => placed.get(id(n))?.y ?? NaN;
  expect(y(1)).toBeLessThan(y(5));
});

test('a group says the worst of its ports, but for those of switches that are away', () => {
  const groups = [
    { id: 'a', name: 'Pod 1', top: false, switches: ['a', 'b'] },
    { id: 'c', name: 'Pod 2', top: false, switches: ['c'] },
  ];
  const ports = [
    { owner: 'a', level: 0, sent_bps: 20, rate_bps: 100 },
    { owner: 'a', level: 2, sent_bps: 95, rate_bps: 100 },
    { owner: 'b', level: 3, sent_bps: 99, rate_bps: 100 },
    { owner: 'c', level: 0, sent_bps: null, rate_bps: 100 },
    { owner: 'unknown', level: 3, sent_bps: 1, rate_bps: 1 },
  ];
  const found = summaries(groups, ports, new Set(['b']));
  expect(found.get('a')).toEqual({ away: 1, level: 2, congested: 1, busiest: 0.95 });
  expect(found.get('c')).toEqual({ away: 0, level: 0, congested: 0, busiest: null });
});

test('switches that are away and those with congested ports want a look, the worst first', () => {
  const group = { id: id(1), name: 'Pod 1', top: false, switches: [1, 2, 3, 4, 5].map(id) };
  const levels = new Map([2, 3, 5, 9].map((n): [string, number] => [id(n), n === 3 ? 3 : 1]));
  const away = new Set([id(4), id(5), id(8)]);
  expect(troubled(group, levels, away)).toEqual([id(4), id(5), id(3), id(2)]);
  expect(troubled(group, new Map(), new Set())).toEqual([]);
});

test('a switch is found by its id and by the name of a port', () => {
  const switches = [1, 0x11, 0x111, 0x211].map(id);
  const ports = [
    { owner: id(0x211), name: 'leaf3-eth1' },
    { owner: id(0x211), name: 'leaf3-eth2' },
    { owner: id(0x99), name: 'leaf3-eth9' },
  ];
  expect(find('11', switches, ports)).toEqual([0x11, 0x111, 0x211].map(id));
  expect(find(' 0x111 ', switches, ports)).toEqual([id(0x111)]);
  expect(find('LEAF3', switches, ports)).toEqual([id(0x211)]);
  expect(find('1', switches, ports, 2)).toEqual([id(1), id(0x11)]);
  expect(find('', switches, ports)).toEqual([]);
  expect(find('nobody', switches, ports)).toEqual([]);
});
