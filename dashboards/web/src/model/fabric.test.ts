import { describe, expect, test } from 'vitest';

import { layOut, linkPath, portAt, useStep, type Edge, type Node } from './fabric';

const node = (id: string, hosts = 0, edgePorts = 0): Node => ({ id, hosts, edgePorts });

function leafSpine(withHosts = ['l1', 'l2', 'l3', 'l4']): [Node[], Edge[]] {
  const leaves = ['l1', 'l2', 'l3', 'l4'];
  const nodes = [...leaves.map((id) => node(id, withHosts.includes(id) ? 8 : 0))];
  nodes.push(node('s1'), node('s2'));
  return [
    nodes,
    leaves.flatMap((leaf): Edge[] => [
      [leaf, 's1'],
      ['s2', leaf],
    ]),
  ];
}

function fatTree(k = 4): [Node[], Edge[]] {
  const nodes: Node[] = [];
  const edges: Edge[] = [];
  const half = k / 2;
  for (let core = 0; core < half * half; core += 1) nodes.push(node(`c${core}`));
  for (let pod = 0; pod < k; pod += 1) {
    for (let at = 0; at < half; at += 1) {
      nodes.push(node(`p${pod}a${at}`), node(`p${pod}e${at}`, half));
      for (let other = 0; other < half; other += 1) {
        edges.push([`p${pod}a${at}`, `p${pod}e${other}`]);
        edges.push([`p${pod}a${at}`, `c${at * half + other}`]);
      }
    }
  }
  return [nodes, edges];
}

/** Of each layer, from the bottom, how many there are. */
function rows(nodes: Node[], edges: Edge[]): number[] {
  const { nodes: placed, layers } = layOut(nodes, edges);
  return Array.from(
    { length: layers },
    (_, layer) => [...placed.values()].filter((one) => one.layer === layer).length,
  );
}

test.each([[['l1', 'l2', 'l3', 'l4']], [['l2']], [[]]])(
  'leaf-spine has two layers, whoever of %s has spoken',
  (withHosts) => {
    expect(rows(...leafSpine(withHosts))).toEqual([4, 2]);
    expect(layOut(...leafSpine(withHosts)).pods).toEqual([]);
  },
);

test.each([4, 6])('a fat tree of %d has three layers, and pods', (k) => {
  expect(rows(...fatTree(k))).toEqual([(k * k) / 2, (k * k) / 2, (k * k) / 4]);
  const { pods, nodes } = layOut(...fatTree(k));
  expect(pods.length).toBe(k);
  const [first] = pods;
  for (const id of ['p0e0', 'p0e1', 'p0a0', 'p0a1']) {
    const x = nodes.get(id)?.x ?? 0;
    expect(x).toBeGreaterThan(first?.x ?? Infinity);
    expect(x).toBeLessThan((first?.x ?? 0) + (first?.width ?? 0));
  }
});

describe('anything else', () => {
  test('one switch, none, and links to switches that are not known', () => {
    expect(layOut([], []).nodes.size).toBe(0);
    expect(rows([node('a', 3)], [['a', 'gone']])).toEqual([1]);
  });

  test('a chain whose switches all have hosts is a row', () => {
    const chain = ['a', 'b', 'c'].map((id) => node(id, 1));
    expect(
      rows(chain, [
        ['a', 'b'],
        ['b', 'c'],
      ]),
    ).toEqual([3]);
  });

  test('no two switches stand in one place, and none outside', () => {
    const { nodes, width, height } = layOut(...fatTree(8));
    const places = [...nodes.values()];
    expect(new Set(places.map(({ x, y }) => `${x},${y}`)).size).toBe(places.length);
    for (const { x, y } of places) {
      expect(x > 0 && x < width && y > 0 && y < height).toBe(true);
    }
  });

  test('the order in which they are told does not matter', () => {
    const [nodes, edges] = fatTree();
    const turned = layOut([...nodes].reverse(), [...edges].reverse());
    expect([...turned.nodes.values()].sort((a, b) => (a.id < b.id ? -1 : 1))).toEqual(
      [...layOut(nodes, edges).nodes.values()].sort((a, b) => (a.id < b.id ? -1 : 1)),
    );
  });
});

test('many of the lowest layer stand in several rows', () => {
  const leaves = Array.from({ length: 38 }, (_, n) => `l${String(n).padStart(2, '0')}`);
  const nodes = [...leaves.map((id) => node(id, 4)), node('a1'), node('a2')];
  const edges = leaves.flatMap((leaf): Edge[] => [
    [leaf, 'a1'],
    [leaf, 'a2'],
  ]);
  const { nodes: placed, width, height } = layOut(nodes, edges, 12);
  const rowsOf = new Map<number, number[]>();
  for (const id of leaves) {
    const { x, y } = placed.get(id) ?? { x: -1, y: -1 };
    rowsOf.set(y, [...(rowsOf.get(y) ?? []), x]);
    expect(x > 0 && x < width && y < height).toBe(true);
    expect(y).toBeGreaterThan(placed.get('a1')?.y ?? Infinity);
  }
  expect([...rowsOf.values()].map((row) => row.length)).toEqual([10, 10, 10, 8]);
  const [first = [], second = []] = rowsOf.values();
  expect(first.filter((x) => second.includes(x))).toEqual([]);
  expect(width).toBeLessThan(layOut(nodes, edges).width / 3);
  // What fits stands as before.
  expect(layOut(nodes, edges, 38)).toEqual(layOut(nodes, edges));
});

test('the use of a link in steps', () => {
  expect([0, 0.1e8, 0.3e8, 0.6e8, 0.95e8].map((sent) => useStep(sent, 1e8))).toEqual([
    0, 1, 2, 3, 4,
  ]);
  expect(useStep(null, 1e8)).toBeNull();
  expect(useStep(1, 0)).toBeNull();
});

test('the two directions of a link lie side by side', () => {
  const a = { id: 'a', x: 0, y: 100, layer: 0 };
  const b = { id: 'b', x: 0, y: 0, layer: 1 };
  expect(linkPath(a, b)).toBe('M3.5 100L3.5 0');
  expect(linkPath(b, a)).toBe('M-3.5 0L-3.5 100');
  expect(linkPath(a, { ...a, x: 300 })).toContain('Q');
  expect(portAt(a, b)).toEqual({ x: 3.5, y: 79 });
  expect(portAt(b, a)).toEqual({ x: -3.5, y: 21 });
});
