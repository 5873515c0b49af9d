/** What the charts of an incident show, on the page and in a file. */

import { bytes, duration, perSecond, rate } from './format';
import { forceOf, type Incident, type IncidentPort } from './incident';
import { meaning, noticesOf, thresholds, type Notice } from './notices';
import { portId } from './rates';
import { times } from './series';
import type { History, SeriesName, Values } from './types';

export interface Line {
  label: string;
  values: Values;
  /** The name of a colour of style/base.css, without `--`. */
  colour: string;
}

/** The dashes of a chart's lines, in pixels: the colour is not needed to tell the second from the
 * first. */
export const dashesOf = (n: number): number[] => (n === 0 ? [] : [7, 4]);

/** A limit: a horizontal line. */
export interface Limit {
  label: string;
  value: number;
  /** As of a line; else it is muted. */
  colour?: string;
}

export interface ChartOf {
  title: string;
  times: number[];
  lines: Line[];
  format: (value: number | null) => string;
  limits: Limit[];
  notices: Notice[];
  /** Whether the axis goes by powers of two. */
  binary: boolean;
  /** What has to be known to read it. */
  note: string;
}

type Spec = [label: string, name: SeriesName, colour: string];

function chart(
  history: History,
  title: string,
  format: ChartOf['format'],
  specs: readonly Spec[],
  more: Partial<ChartOf> = {},
): ChartOf {
  const lines = specs.map(([label, name, colour]) => ({
    ...{ label, colour },
    values: history.series[name],
  }));
  const plain = { limits: [], notices: [], binary: false, note: '' };
  return { title, times: times(history), lines, format, ...plain, ...more };
}

const SENT: readonly Spec[] = [['sent', 'sent_bps', 'blue']];
const REQUESTS: readonly Spec[] = [
  ['all', 'requests_per_s', 'blue'],
  ['held', 'held_per_s', 'violet'],
];
const LOSSES: readonly Spec[] = [
  ['dropped packets', 'dropped_per_s', 'level-M'],
  ['TCP timeouts', 'timeouts_per_s', 'level-H'],
];

const answers = (history: History): ChartOf[] => [
  chart(history, 'Requests', perSecond, REQUESTS),
  chart(history, 'Time of an answer', duration, [['mean', 'answer_s', 'blue']]),
  chart(history, 'Losses', perSecond, LOSSES),
];

export const chartsOfTotals = ({ totals }: Incident): ChartOf[] => [
  chart(totals, 'Sent by all queues', rate, SENT),
  ...answers(totals),
];

/** Queue and use; of a port that was asked for, what its requests met, too. */
export function chartsOfPort(incident: Incident, port: IncidentPort): ChartOf[] {
  const id = portId(port);
  const { queue, limit_bytes, capacity_bps } = forceOf(incident, id);
  const limits: Limit[] = [
    ...(limit_bytes === null ? [] : [{ label: `limit ${bytes(limit_bytes)}`, value: limit_bytes }]),
    ...thresholds(queue?.levels).map((one) => ({ ...one, colour: `level-${one.level}` })),
  ];
  const notices = noticesOf(incident.events, id);
  const note = (queue && meaning(queue)) ?? '';
  const use = capacity_bps === null ? [] : [{ label: rate(capacity_bps), value: capacity_bps }];
  const asked = incident.port !== null && portId(incident.port) === id;
  return [
    chart(port.history, 'Queue', bytes, [['queue', 'queue_bytes', 'blue']], {
      ...{ limits, notices, binary: true, note },
    }),
    chart(port.history, 'Sent', rate, SENT, { limits: use }),
    ...(asked ? answers(port.history) : []),
  ];
}
