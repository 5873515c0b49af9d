import { describe, expect, test } from 'vitest';

import {
  bytes,
  count,
  dateTime,
  digits,
  duration,
  endpoint,
  percent,
  perSecond,
  rate,
  splitId,
  timeOfDay,
  utc,
} from './format';

test.each([
  [0, '0'],
  [0.0123, '0.012'],
  [0.5, '0.5'],
  [9.999, '10'],
  [13.44, '13.4'],
  [104.4, '104'],
])('digits of %d', (value, text) => expect(digits(value)).toBe(text));

test.each([
  [104_000_000, '104 Mb/s'],
  [9_500_000_000, '9.5 Gb/s'],
  [999_600_000, '1 Gb/s'],
  [800, '800 b/s'],
  [0, '0 b/s'],
  [null, '–'],
])('a rate of %s', (value, text) => expect(rate(value)).toBe(text));

test.each([
  [65_536, '64 KiB'],
  [14_600, '14.3 KiB'],
  [1023, '1023 B'],
  [1024 * 1024, '1 MiB'],
  [undefined, '–'],
])('%s bytes', (value, text) => expect(bytes(value)).toBe(text));

test.each([
  [0.0134, '13.4 ms'],
  [0.000025, '25 µs'],
  [0.9999, '1 s'],
  [1.5, '1.5 s'],
  [0, '0 s'],
  [60, '1 min'],
  [125, '2 min 5 s'],
  [7200, '2 h'],
  [90_061, '1 d 1 h'],
  [NaN, '–'],
])('%s seconds', (value, text) => expect(duration(value)).toBe(text));

describe('others', () => {
  test('counts, shares and frequencies', () => {
    expect(count(1_000_000)).toBe('1 M');
    expect(count(12)).toBe('12');
    expect(perSecond(0.5)).toBe('0.5/s');
    expect(perSecond(null)).toBe('–');
    expect(percent(0.953)).toBe('95.3 %');
    expect(percent(1 / 0)).toBe('–');
  });

  test('times are local, and UTC has its name', () => {
    const at = Date.UTC(2026, 10, 24, 21, 25, 3) / 1000 + 0.25;
    expect(utc(at)).toBe('2026-11-24 21:25:03 UTC');
    expect(timeOfDay(at)).toMatch(/^\d\d:\d5:03$/);
    expect(timeOfDay(at, true)).toMatch(/03\.250$/);
    expect(timeOfDay(null)).toBe('–');
  });

  test('names', () => {
    expect(splitId('0000000000000011')).toEqual(['00000000000000', '11']);
    expect(splitId('0000000000000000')).toEqual(['000000000000000', '0']);
    expect(endpoint('10.0.0.1', 80)).toBe('10.0.0.1:80');
    expect(endpoint('fd00::1', 80)).toBe('[fd00::1]:80');
  });
});

test('a day is that of the place where one is', () => {
  const at_s = new Date(2026, 10, 5, 9, 8, 7).getTime() / 1000;
  expect(dateTime(at_s)).toBe('2026-11-05 09:08:07');
  expect(dateTime(null)).toBe('–');
});
