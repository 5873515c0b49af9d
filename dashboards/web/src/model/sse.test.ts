import { expect, test } from 'vitest';

import { Parser } from './sse';

const STREAM = ': comment\n\nid: 7\nevent: event\ndata: {"a":1}\n\ndata: one\r\ndata:two\r\n\r\n';
const TOLD = [
  { event: 'event', data: '{"a":1}' },
  { event: 'message', data: 'one\ntwo' },
];

test('a whole stream', () => {
  expect(new Parser().take(STREAM)).toEqual(TOLD);
});

test.each([1, 2, 3, 5, 7])('the same in pieces of %d', (size) => {
  const parser = new Parser();
  const told = [];
  for (let at = 0; at < STREAM.length; at += size) {
    told.push(...parser.take(STREAM.slice(at, at + size)));
  }
  expect(told).toEqual(TOLD);
});

test('without data there is no message, and an unfinished one waits', () => {
  const parser = new Parser();
  expect(parser.take('event: nothing\n\ndata: x\n')).toEqual([]);
  expect(parser.take('\n')).toEqual([{ event: 'message', data: 'x' }]);
});
