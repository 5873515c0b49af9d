/** A chart as SVG in markup, with the colours of paper. */

import { dashesOf, type ChartOf } from './charts';
import { figure, HEIGHT, WIDTH, type Figure } from './figure';
import type { Interval } from './interval';
import { html, type Markup } from './markup';
import { counted, SHAPES, type NoticeName } from './notices';

export const COLOURS: Record<string, string> = {
  blue: '#0b5cad',
  violet: '#6d43b8',
  good: '#16703a',
  'level-L': '#8a5d00',
  'level-M': '#b04800',
  'level-H': '#b8102f',
};
const colour = (name: string): string => COLOURS[name] ?? '#52616f';

/** The chart with its title and legend. Its classes are those of report.css. */
export function svg(chart: ChartOf, interval: Interval): Markup {
  const drawn = figure(chart, interval);
  return html`<figure>
    <figcaption>
      ${chart.title}${legend(chart, drawn)} <span class="muted">${chart.note}</span>
    </figcaption>
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${chart.title}">
      ${axes(drawn)}${lines(drawn)}${limits(drawn)}${notices(drawn)}
    </svg>
  </figure> `;
}

function dashed(n: number): Markup | string {
  const dashes = dashesOf(n);
  return dashes.length === 0 ? '' : html`stroke-dasharray="${dashes.join(' ')}"`;
}

function legend(chart: ChartOf, drawn: Figure): Markup[] {
  const named = chart.lines.length > 1 ? chart.lines : [];
  const key = (box: string, sign: Markup, text: string): Markup =>
    html` <svg class="key" viewBox="${box}">${sign}</svg> <span class="muted">${text}</span>`;
  return [
    ...named.map((line, n) => {
      const stroke = colour(line.colour);
      const sign = html`<path d="M0 5H20" stroke="${stroke}" stroke-width="3" ${dashed(n)} />`;
      return key('0 0 20 10', sign, line.label);
    }),
    ...counted(drawn.notices).map(([name, n]) => key('-7 -6 14 12', shape(name), `${n} ${name}`)),
  ];
}

function axes({ up, across, box }: Figure): Markup[] {
  const text = (x: number, y: number, anchor: string, label: string): Markup =>
    html`<text x="${x}" y="${y}" text-anchor="${anchor}">${label}</text>`;
  const line = (path: string): Markup => html`<path class="grid" d="${path}" />`;
  return [
    ...up.flatMap((tick) => [
      line(`M${box.left} ${tick.y}H${box.right}`),
      text(box.left - 6, tick.y + 4, 'end', tick.text),
    ]),
    ...across.flatMap((tick) => [
      line(`M${tick.x} ${box.top}V${box.bottom}`),
      text(tick.x, box.bottom + 15, 'middle', tick.text),
    ]),
  ];
}

/** Within a drawing of their own, which clips what goes beyond it. */
function lines({ lines: drawn, box }: Figure): Markup {
  const [width, height] = [box.right - box.left, box.bottom - box.top];
  const paths = drawn.map(
    (line, n) =>
      html`<path class="line" d="${line.path}" stroke="${colour(line.colour)}" ${dashed(n)} />`,
  );
  return html`<svg
    x="${box.left}"
    y="${box.top}"
    width="${width}"
    height="${height}"
    viewBox="${box.left} ${box.top} ${width} ${height}"
  >
    ${paths}
  </svg>`;
}

const limits = ({ limits: drawn, box }: Figure): Markup[] =>
  drawn.map(({ y, label, colour: name }) => {
    const tone = colour(name);
    const path = `M${box.left} ${y}H${box.right}`;
    return html`<path class="limit" d="${path}" stroke="${tone}" />
      <text class="halo" x="${box.right - 2}" y="${y - 3}" text-anchor="end" fill="${tone}">
        ${label}
      </text>`;
  });

const notices = ({ notices: drawn }: Figure): Markup[] =>
  drawn.map(({ x, y, name }) => html`<g transform="translate(${x} ${y})">${shape(name)}</g>`);

function shape(name: NoticeName): Markup {
  const { path, colour: tone, hollow } = SHAPES[name];
  const [fill, stroke] = hollow ? ['none', colour(tone)] : [colour(tone), '#fff'];
  return html`<path d="${path}" fill="${fill}" stroke="${stroke}" />`;
}
