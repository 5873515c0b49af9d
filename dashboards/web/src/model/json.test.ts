import { expect, test } from 'vitest';

import { datapathId, parse } from './json';

test('a datapath id of 64 bits is not rounded', () => {
  const told = parse('{"switch": 18446744073709551615, "port": 2}') as Record<string, unknown>;
  expect(datapathId(told['switch'])).toBe('ffffffffffffffff');
  expect(told['port']).toBe(2);
});

test('small ones stay numbers, and text stays text', () => {
  const name = 'a "switch": 12345678901234567890';
  const told = parse(JSON.stringify({ switch: 17, name })) as Record<string, unknown>;
  expect(told).toEqual({ switch: 17, name });
  expect(datapathId(17)).toBe('0000000000000011');
});

test('what is no id has none', () => {
  expect(datapathId(null)).toBe('');
  expect(datapathId(1.5)).toBe('');
  expect(datapathId('x')).toBe('');
});
