import { expect, test } from 'vitest';

import { csv, field } from './csv';

test('fields are quoted where they have to be', () => {
  expect(['plain', 'a,b', 'say "no"', 'two\nlines'].map(field)).toEqual([
    'plain',
    '"a,b"',
    '"say ""no"""',
    '"two\nlines"',
  ]);
});

test('a spreadsheet takes nothing for a formula', () => {
  for (const text of ['=1+1', '+1', '-1', '@x', '\t=1', ' =1']) expect(field(text)[0]).toBe("'");
  expect(field('=a,"b"')).toBe(`"'=a,""b"""`);
  expect(field('\n=1')).toBe(`"'\n=1"`);
  // Where a spreadsheet takes ";" or tabs for the ends of fields.
  expect(field('a;=1;b\t@x')).toBe('a; =1;b\t @x');
  expect(field('a;b-c')).toBe('a;b-c');
});

test('events have a line each, with the time in UTC', () => {
  const told = csv([{ event: 'link_up', wall_s: 1.5, a: 'x:1', b: 'y:2' }, { event: 'odd' }]);
  const [head, first, second] = told.split('\r\n');
  expect(head).toBe('\ufefftime,event,where,what,json');
  expect(first).toMatch(/^1970-01-01T00:00:01\.500Z,link_up,,x:1 – y:2,"\{""event""/);
  expect(second).toMatch(/^,odd,/);
});
