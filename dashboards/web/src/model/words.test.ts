import { expect, test } from 'vitest';

import { words } from './words';

const whole = (text: string): string[] =>
  words(text).flatMap((one) => (one.whole ? [one.part] : []));

test('words with hyphens are whole', () => {
  expect(whole('worst leaf1-eth3 at CN-H; 2 (4 CN-M).')).toEqual(['leaf1-eth3', 'CN-H;', 'CN-M).']);
  expect(whole('a - b -c d-')).toEqual([]);
});

test('figures keep their units', () => {
  expect(whole('L 19.2 KiB, 100 Mb/s for 520 µs (3 s): 5 % of 5 sheep, 2 blocks')).toEqual([
    ...['L 19.2 KiB', '100 Mb/s', '520 µs', '3 s', '5 %'],
  ]);
});

test('long ones may break, and nothing is lost', () => {
  const long = `leaf3-${'a-name-that-nobody-would-write'.repeat(3)} CN-H`;
  expect(whole(long)).toEqual(['CN-H']);
  for (const text of [long, '', 'plain', '<b>a-b</b>'])
    expect(
      words(text)
        .map(({ part }) => part)
        .join(''),
    ).toBe(text);
});
