import { expect, test } from 'vitest';

import { end_s, largest, last, merge, since, times } from './series';
import type { History, Values } from './types';

function history(begin_s: number, values: Values, step_s = 1): History {
  const series = {
    sent_bps: values,
    queue_bytes: values,
    dropped_per_s: values,
    requests_per_s: values,
    held_per_s: values,
    held_s_per_s: values,
    timeouts_per_s: values,
    answer_s: values,
  };
  return { step_s, begin_s, series };
}

test('a newer part goes on, and counts where both tell', () => {
  const merged = merge(history(100, [1, 2, null]), history(102, [3, 4]), 600);
  expect(merged.begin_s).toBe(100);
  expect(merged.series.queue_bytes).toEqual([1, 2, 3, 4]);
  expect(times(merged)).toEqual([100, 101, 102, 103]);
  expect(end_s(merged)).toBe(104);
});

test('a gap between them is not known', () => {
  const merged = merge(history(100, [1]), history(103, [4]), 600);
  expect(merged.series.sent_bps).toEqual([1, null, null, 4]);
});

test('what is older than the span is forgotten', () => {
  const merged = merge(history(100, [1, 2, 3]), history(103, [4, 5]), 3);
  expect([merged.begin_s, merged.series.sent_bps]).toEqual([102, [3, 4, 5]]);
});

test('another step, or an earlier beginning, replaces all', () => {
  expect(merge(history(100, [1]), history(100, [2], 10), 600).series.sent_bps).toEqual([2]);
  expect(merge(history(100, [1]), history(50, [2]), 600).begin_s).toBe(50);
});

test('only the end is asked for again', () => {
  expect(since(null, 1000, 600)).toBeNull();
  expect(since(history(900, Array<number>(100).fill(1)), 1000, 600)).toBe(995);
  expect(since(history(0, [1]), 1000, 600)).toBeNull();
  expect(since(history(4600, [1]), 1000, 600)).toBeNull();
  expect(since(history(900, Array<number>(100).fill(1)), 1000, 86_400)).toBeNull();
});

test('extremes pass over what is not known', () => {
  expect(last([1, 2, null])).toBe(2);
  expect(last([])).toBeNull();
  expect(largest([null, -1, 3, null])).toBe(3);
  expect(largest([null])).toBeNull();
});
