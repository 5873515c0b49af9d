import { expect, test } from 'vitest';

import { COLOURS } from '../model/svg';
import base from './base.css?raw';

type Colours = Record<string, string>;

const declared = (text: string): Colours =>
  Object.fromEntries([...text.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map((m) => [m[1], m[2]]));
const [lightText = '', darkText = ''] = base.split(
  '@media screen and (prefers-color-scheme: dark)',
);
const light = declared(lightText);
const looks: [string, Colours][] = [
  ['light', light],
  ['dark', { ...light, ...declared(darkText) }],
];

/** Relative luminance and contrast as WCAG 2.2 defines them. */
function luminance(colour = ''): number {
  const [red = NaN, green = NaN, blue = NaN] = [1, 3, 5].map((at) => {
    const part = parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
function contrast(one: string | undefined, other: string | undefined): number {
  const [low = NaN, high = NaN] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

test('black on white is what it is defined to be', () => {
  expect(contrast('#000000', '#ffffff')).toBe(21);
});

const SIGNS = [
  ...['use-0', 'use-1', 'use-2', 'use-3', 'use-4'],
  ...['level-0', 'level-L', 'level-M', 'level-H', 'blue', 'violet', 'good', 'control', 'muted'],
];

test.each(looks)('what is drawn can be seen, in %s', (_, colours) => {
  for (const sign of SIGNS)
    // A pod of the fabric has the ground's colour.
    for (const behind of ['surface', 'ground'])
      expect(contrast(colours[sign], colours[behind]), `${sign} on ${behind}`).toBeGreaterThan(3);
});

test.each(looks)('text can be read, in %s', (_, colours) => {
  for (const text of ['ink', 'muted', 'blue', 'good', 'level-L', 'level-M', 'level-H'])
    for (const behind of ['surface', 'ground', 'banner-bad', 'banner-watch'])
      expect(contrast(colours[text], colours[behind]), `${text} on ${behind}`).toBeGreaterThan(4.5);
  for (const behind of ['level-0', 'level-L', 'level-M', 'level-H', 'blue'])
    expect(contrast(colours['on-colour'], colours[behind]), behind).toBeGreaterThan(4.5);
});

test('a file has the colours of the page', () => {
  expect(light).toMatchObject(COLOURS);
});
