import { expect, test } from 'vitest';

import {
  changedMeanwhile,
  changesOf,
  choicesOf,
  deedOf,
  found,
  lostText,
  merged,
  nameOf,
  refusals,
  sections,
  typedSince,
} from './settings';
import type { AuditEntry, Setting } from './types';

const setting = (key: string, value: string, more: Partial<Setting> = {}): Setting => ({
  key,
  section: key.split('.')[0] ?? '',
  value,
  configured: value,
  default: value,
  kind: 'text',
  choices: null,
  description: '',
  scope: 'live',
  changed: null,
  ...more,
});

const HOLD = setting('regulation.max_hold', '20 ms', {
  configured: '160 ms',
  kind: 'duration',
  description: 'how long a switch may hold a request',
  changed: { by: 'ada', at_s: 1 },
});
const POLICIES = setting('policies', '[]', { kind: 'list' });
const TTL = setting('regulation.window_ttl', '3 s');
const ALL = [HOLD, POLICIES, TTL];

test('settings come by section, those that take a restart last', () => {
  const told = sections([setting('fabric.rtt', '1 ms', { scope: 'restart' }), ...ALL]);
  expect(told.map(([name, of]) => [name, of.map(nameOf)])).toEqual([
    ['regulation', ['max_hold', 'window_ttl']],
    ['policies', ['policies']],
    ['fabric', ['rtt']],
  ]);
});

test('settings are found by words of theirs', () => {
  expect(found(ALL, 'REQUEST hold', false)).toEqual([HOLD]);
  expect(found(ALL, '', false)).toEqual(ALL);
  expect(found(ALL, '', true)).toEqual([HOLD]);
  expect(found(ALL, 'nothing', false)).toEqual([]);
});

test('the spaces before a line of YAML stay', () => {
  const drafts = { policies: { text: '  - port: 80\n  - port: 81\n', was: '[]' } };
  expect(changesOf(ALL, drafts)).toEqual({ policies: '  - port: 80\n  - port: 81' });
});

test('only what would be another value is asked for', () => {
  const drafts = {
    'regulation.max_hold': { text: null, was: '20 ms' },
    'regulation.window_ttl': { text: ' 3 s ', was: '3 s' },
    policies: { text: '[{port: 80}]', was: '[]' },
    'gone.key': { text: '1', was: '2' },
  };
  expect(changesOf(ALL, drafts)).toEqual({
    'regulation.max_hold': null,
    policies: '[{port: 80}]',
  });
  expect(changesOf(ALL, { policies: { text: null, was: '[]' } })).toEqual({});
});

test('a draft knows that its setting was changed meanwhile', () => {
  expect(changedMeanwhile(HOLD, { text: '30 ms', was: '160 ms' })).toBe(true);
  expect(changedMeanwhile(HOLD, { text: '30 ms', was: '20 ms' })).toBe(false);
});

test('what is refused stands at its setting', () => {
  const keys = ALL.map(({ key }) => key);
  const detail = [
    'regulation.max_hold: 2000 ms is not within 1 ms to 1 s; choose it: now',
    'policies.0.port: is missing; add it',
    'policies: is wrong',
    'the header is missing',
  ].join('\n');
  expect(refusals(detail, keys)).toEqual({
    'regulation.max_hold': '2000 ms is not within 1 ms to 1 s; choose it: now',
    policies: 'policies.0.port: is missing; add it\nis wrong',
    '': 'the header is missing',
  });
  expect(refusals('regulation.max_holder: no', keys)).toEqual({ '': 'regulation.max_holder: no' });
});

test('what can be chosen is listed', () => {
  expect(choicesOf(setting('a.b', 'true', { kind: 'boolean' }))).toEqual(['true', 'false']);
  expect(choicesOf(setting('a.b', 'x', { kind: 'choice', choices: ['x', 'y'] }))).toEqual([
    'x',
    'y',
  ]);
  expect(choicesOf(HOLD)).toBeNull();
});

test('entries of the audit log are each told once, the newest first', () => {
  const entry = (id: string): AuditEntry => ({
    id,
    at_s: 1,
    by: 'ada',
    what: 'settings',
    changes: [],
    detail: '',
  });
  const known = merged([], ['10', '9'].map(entry));
  const all = merged(known, ['11', '10', '8'].map(entry));
  expect(all.map(({ id }) => id)).toEqual(['11', '10', '9', '8']);
  expect(merged(all, [entry('9')])).toBe(all);
  expect(deedOf(entry('1'))).toBe('changed settings');
});

test('what was typed since stays, and was begun from what is in force now', () => {
  const [a, b, c] = ['1', '2', '3'].map((text) => ({ text, was: '0' }));
  if (!a || !b || !c) throw new Error('there are three');
  const again = { text: '9', was: '0' };
  const steps = [{ key: 'a', from: '0', to: '1' }];
  expect(typedSince({ a: again, b, c }, { a, b }, steps)).toEqual({
    a: { text: '9', was: '1' },
    c: { text: '3', was: '0' },
  });
});

test('a change whose answer was lost is in force, or is not, or nobody knows', () => {
  const steps = [{ key: 'regulation.max_hold', from: '10 ms', to: '20 ms' }];
  expect(lostText('it is gone', steps, null)).toContain('may be in force');
  expect(lostText('it is gone', steps, [HOLD])).toContain(
    'It is in force: regulation.max_hold is 20 ms.',
  );
  const former = [setting('regulation.max_hold', '10 ms')];
  expect(lostText('it is gone', steps, former)).toContain(
    'It is not in force now: regulation.max_hold is 10 ms, not 20 ms.',
  );
});
