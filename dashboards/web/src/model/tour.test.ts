import { expect, test } from 'vitest';

import { hintsFor } from './tour';

test('there are five hints, and the last is about what one may do', () => {
  const [operator, viewer] = [hintsFor(true), hintsFor(false)];
  expect([operator.length, viewer.length]).toEqual([5, 5]);
  expect(operator.at(-1)?.title).toBe('What you may change');
  expect(viewer.at(-1)?.text).toContain('nothing can be changed');
  expect(operator.slice(0, 4)).toEqual(viewer.slice(0, 4));
});
