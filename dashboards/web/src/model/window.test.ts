import { expect, test } from 'vitest';

import { isOrder, windowOf } from './window';

test('what is asked for is around what is in sight', () => {
  expect(windowOf(0, 20)).toEqual({ offset: 0, limit: 100 });
  for (const [first, last] of [
    [0, 0],
    [49, 101],
    [12_345, 12_380],
    [99_950, 99_999],
  ] as const) {
    const { offset, limit } = windowOf(first, last);
    expect(offset).toBeLessThanOrEqual(first);
    expect(offset + limit).toBeGreaterThan(last + 49);
    expect(limit).toBeLessThanOrEqual(200);
  }
});

test('no more is asked for than the API tells at once', () => {
  expect(windowOf(0, 5000).limit).toBe(1000);
});

test('an order is one that the API knows', () => {
  expect(isOrder('newest')).toBe(true);
  for (const wrong of [null, '', 'Volume', 'age']) expect(isOrder(wrong)).toBe(false);
});
