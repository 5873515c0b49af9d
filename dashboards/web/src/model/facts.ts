/** What stands at the head of an incident: where, when, of which Weir, by whom; and in a sentence
 * what happened. */

import { count, duration, percent, timeOfDay, utc } from './format';
import { sum, unknown, type Incident, type IncidentPort } from './incident';
import { intervalText, localDate, zone, zones, type Interval } from './interval';
import { counted, noticesOf } from './notices';
import { portId } from './rates';
import { partly } from './wording';

/** Who made a report, when, and from which Weir. */
export interface Maker {
  by: string;
  at_s: number;
  /** The address of the page. */
  weir: string;
}

/** 2026-11-25 04:20:01.250 to 04:20:31.250 UTC */
export function utcText({ from_s, to_s }: Interval): string {
  const [from, to] = [from_s, to_s].map((at_s) =>
    new Date(Math.round(at_s * 1000)).toISOString().slice(0, 23).replace('T', ' '),
  ) as [string, string];
  return `${from} to ${from.slice(0, 10) === to.slice(0, 10) ? to.slice(11) : to} UTC`;
}

export const titleOf = ({ port }: Incident): string =>
  port === null ? 'Incident in the fabric' : `Incident at ${port.name}`;

export function facts(incident: Incident, made: Maker): [name: string, text: string][] {
  const { port, version } = incident;
  return [
    ['Local time', `${intervalText(incident)}, ${zones(incident)}`],
    ['UTC', utcText(incident)],
    [
      'Port',
      port === null ? 'all ports' : `${port.name}, port ${port.port} of switch ${port.datapath_id}`,
    ],
    ['Weir', `controller ${version}, ${made.weir}`],
    [
      'Report',
      `by ${made.by}, ${localDate(made.at_s)} ${timeOfDay(made.at_s)} ${zone(made.at_s)} (${utc(made.at_s)})`,
    ],
  ];
}

/** What is said where nothing is told: that there was nothing only if all of the time is known. */
export function nothing(incident: Incident): { notices: string; changes: string } {
  return unknown(incident).length === 0
    ? { notices: 'No port had a notice.', changes: 'Nothing was changed in this time.' }
    : { notices: 'No notice is known of.', changes: 'No change is known of this time.' };
}

/** 3 notices */
export function noticesText(incident: Incident, { notices }: IncidentPort): string {
  if (notices === 0 && unknown(incident).length > 0) return 'no notice is known of';
  return `${count(notices)} ${notices === 1 ? 'notice' : 'notices'}`;
}

/** What happened, each in a sentence. */
export function summary(incident: Incident): string[] {
  const { ports, totals, events, events_left_out } = incident;
  const told: string[] = [];
  const congested = ports.filter((port) => port.notices > 0);
  const first = congested[0];
  if (first === undefined) told.push(nothing(incident).notices);
  for (const port of congested.slice(0, 3)) {
    const kinds = counted(noticesOf(events, portId(port)))
      .map(([name, n]) => `${n} ${name}`)
      .join(', ');
    const level = port.worst === null ? '' : `, at worst CN-${port.worst}`;
    told.push(
      `${port.name} had ${noticesText(incident, port)}${level}${kinds ? ` (${kinds})` : ''}.`,
    );
  }
  if (congested.length > 3) told.push(`${congested.length - 3} more ports had notices.`);
  const [requests, held, held_s] = [
    sum(totals, 'requests_per_s', incident),
    sum(totals, 'held_per_s', incident),
    sum(totals, 'held_s_per_s', incident),
  ];
  if (requests !== null && held !== null) {
    const [of, n] = [requests.value, held.value];
    const part = of > 0 ? ` (${percent(n / of)})` : '';
    const mean = n > 0 && held_s !== null ? `, for ${duration(held_s.value / n)} on average` : '';
    told.push(
      `Weir held ${count(Math.round(n))} of ${count(Math.round(of))} requests${part}${mean}${partly(held)}.`,
    );
  }
  const [dropped, timeouts] = [
    sum(totals, 'dropped_per_s', incident),
    sum(totals, 'timeouts_per_s', incident),
  ];
  const losses = [
    ...(dropped === null
      ? []
      : [`${count(Math.round(dropped.value))} packets dropped${partly(dropped)}`]),
    ...(timeouts === null
      ? []
      : [
          `${count(Math.round(timeouts.value))} TCP timeouts of sampled connections${partly(timeouts)}`,
        ]),
  ];
  if (losses.length > 0) told.push(`All queues: ${losses.join(', ')}.`);
  if (events_left_out > 0) {
    told.push(`${count(events_left_out)} events are left out, of other ports first.`);
  }
  const gaps = unknown(incident).length;
  if (gaps > 0) {
    told.push(
      `${gaps === 1 ? 'A part of the time is' : `${gaps} parts of the time are`} not known.`,
    );
  }
  return told;
}
