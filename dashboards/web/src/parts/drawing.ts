/** What a chart has besides its lines: limits, notices, and the part that is picked. */

import type uPlot from 'uplot';

import type { Limit } from '../model/charts';
import type { Interval } from '../model/interval';
import { SHAPES, type Notice } from '../model/notices';

type Colour = (name: string) => string;

const LABEL_PX = 11;

const heightOf = (chart: uPlot, value: number): number =>
  Math.round(chart.valToPos(value, 'y', true));

export function drawLimits(chart: uPlot, limits: readonly Limit[], colour: Colour): void {
  const { ctx, bbox } = chart;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.lineWidth = ratio;
  ctx.setLineDash([4 * ratio, 4 * ratio]);
  for (const { value, colour: name } of limits) {
    const y = heightOf(chart, value);
    ctx.strokeStyle = colour(name ?? 'muted');
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
  }
  ctx.restore();
}

/** Over all else; those of lines that are close to each other stand side by side. */
export function drawLabels(chart: uPlot, limits: readonly Limit[], colour: Colour): void {
  const { ctx, bbox } = chart;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.font = `${LABEL_PX * ratio}px system-ui, sans-serif`;
  ctx.lineJoin = 'round';
  ctx.textAlign = 'right';
  const placed: { y: number; left: number }[] = [];
  for (const { label, value, colour: name } of limits) {
    const y = heightOf(chart, value);
    const tone = colour(name ?? 'muted');
    const close = placed.filter((one) => Math.abs(one.y - y) < (LABEL_PX + 2) * ratio);
    const right = Math.min(bbox.left + bbox.width, ...close.map((one) => one.left)) - 6 * ratio;
    ctx.lineWidth = 3 * ratio;
    ctx.strokeStyle = colour('surface');
    ctx.strokeText(label, right, y - 3 * ratio);
    ctx.fillStyle = tone;
    ctx.fillText(label, right, y - 3 * ratio);
    placed.push({ y, left: right - ctx.measureText(label).width });
  }
  ctx.restore();
}

export function drawNotices(chart: uPlot, notices: readonly Notice[], colour: Colour): void {
  const { ctx } = chart;
  const ratio = devicePixelRatio;
  const { min, max } = chart.scales['x'] ?? {};
  if (min == null || max == null) return;
  const looks = new Map(
    Object.entries(SHAPES).map(([name, shape]) => [
      name,
      { path: new Path2D(shape.path), tone: colour(shape.colour), hollow: shape.hollow },
    ]),
  );
  const surface = colour('surface');
  ctx.save();
  for (const { name, at_s, bytes } of notices) {
    const look = looks.get(name);
    if (look === undefined || at_s < min || at_s > max) continue;
    ctx.setTransform(
      ratio,
      0,
      0,
      ratio,
      chart.valToPos(at_s, 'x', true),
      chart.valToPos(bytes, 'y', true),
    );
    ctx.fillStyle = look.hollow ? surface : look.tone;
    ctx.strokeStyle = look.hollow ? look.tone : surface;
    ctx.lineWidth = look.hollow ? 1.5 : 1;
    ctx.fill(look.path);
    ctx.stroke(look.path);
  }
  ctx.restore();
}

export function drawPicked(chart: uPlot, picked: Interval, colour: Colour): void {
  const { ctx, bbox } = chart;
  const inside = (x: number): number => Math.min(Math.max(x, bbox.left), bbox.left + bbox.width);
  const left = inside(chart.valToPos(picked.from_s, 'x', true));
  const right = inside(chart.valToPos(picked.to_s, 'x', true));
  ctx.save();
  ctx.fillStyle = colour('blue');
  ctx.globalAlpha = 0.18;
  ctx.fillRect(left, bbox.top, Math.max(right - left, devicePixelRatio), bbox.height);
  ctx.restore();
}
