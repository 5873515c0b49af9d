/** An incident as one file: HTML that runs nothing and loads nothing. */

import { chartsOfPort, chartsOfTotals } from './charts';
import { placeOf, told } from './events';
import { facts, nothing, noticesText, summary, titleOf, utcText, type Maker } from './facts';
import { bytes, endpoint, rate, UNKNOWN, utc } from './format';
import {
  largeFlows,
  phases,
  unknown,
  unknownFlows,
  type Incident,
  type IncidentPort,
} from './incident';
import { intervalText, localDate, whenText, zones } from './interval';
import { html, Markup } from './markup';
import { portId } from './rates';
import style from './report.css?raw';
import { deedOf } from './settings';
import { svg } from './svg';
import type { WeirEvent } from './types';
import { words } from './words';
import { changesOf, creditOf, heldText, rangeText, windowsOf } from './wording';

// Without this, a file that is opened from a disk could do what its browser allows to such files.
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/** A text whose words do not break at their hyphens. */
const whole = (text: string): Markup[] =>
  words(text).map(({ part, whole }) =>
    whole ? html`<span class="unbroken">${part}</span>` : html`${part}`,
  );

type Moment = (at_s: number | undefined, ms?: boolean) => Markup;

/** Moments of an incident: with the day where it is not that of its beginning. */
function moments({ from_s }: Incident): Moment {
  const day = localDate(from_s);
  return (at_s, ms = false) =>
    html`<span class="when" title="${utc(at_s)}"
      >${at_s === undefined ? UNKNOWN : whenText(at_s, day, ms)}</span
    >`;
}

function table(heads: readonly string[], rows: readonly (string | number | Markup)[][]): Markup {
  return html`<table>
    <thead>
      <tr>
        ${heads.map((head) => html`<th>${head}</th>`)}
      </tr>
    </thead>
    <tbody>
      ${rows.map(
        (row) =>
          html`<tr>
            ${row.map((cell) => html`<td>${cell}</td>`)}
          </tr> `,
      )}
    </tbody>
  </table> `;
}

function ofPort(incident: Incident, port: IncidentPort): Markup {
  const moment = moments(incident);
  const id = portId(port);
  const rules = phases(incident.snapshots, id);
  const flows = largeFlows(incident.snapshots, id);
  const notKnown = unknownFlows(incident.snapshots, id);
  const level = port.worst === null ? '' : `, at worst CN-${port.worst}`;
  return html`<h2>Port ${port.name}</h2>
    <p class="muted">
      port ${port.port} of switch ${port.datapath_id}; ${noticesText(incident, port)}${whole(level)}
    </p>
    <div class="charts">${chartsOfPort(incident, port).map((chart) => svg(chart, incident))}</div>
    <h3>What Weir did</h3>
    <p>${heldText(port.history, incident)}</p>
    ${
      rules.length === 0
        ? html`<p class="muted">No snapshot says what was in force.</p>`
        : table(
            [
              'From',
              'To',
              'Scheme',
              'Burst flows',
              'Background',
              'Largest windows',
              'Credit, held at most',
            ],
            rules.map(({ from_s, to_s, rule, burst, background }) => [
              moment(from_s),
              moment(to_s),
              rule.scheme,
              rangeText(burst),
              rangeText(background),
              windowsOf(rule),
              creditOf(rule),
            ]),
          )
    }
    <h3>Who was large</h3>
    ${notKnown === null ? '' : html`<p class="muted">${notKnown}</p>`}
    ${
      flows.length === 0
        ? ''
        : table(
            ['From', 'To', 'Class', 'Volume', 'Mean rate', 'Treatment', 'Seen'],
            flows.map((flow) => [
              endpoint(flow.src, flow.src_port),
              endpoint(flow.dst, flow.dst_port),
              flow.classes.join(' → '),
              bytes(flow.volume_bytes),
              rate(flow.mean_bps),
              flow.treatments.join(' → '),
              html`${moment(flow.first_s)} to ${moment(flow.last_s)}`,
            ]),
          )
    } `;
}

const eventRow = (event: WeirEvent, moment: Moment): (string | Markup)[] => [
  moment(event.wall_s, true),
  event.event,
  placeOf(event),
  told(event),
];

/** The whole file. */
export function report(incident: Incident, made: Maker): string {
  const gaps = unknown(incident);
  const moment = moments(incident);
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta http-equiv="Content-Security-Policy" content="${POLICY}" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${titleOf(incident)}, ${utcText(incident)}</title>
        <style>
          ${new Markup(style)}
        </style>
      </head>
      <body>
        <h1>${titleOf(incident)}</h1>
        <dl>
          ${facts(incident, made).map(
            ([name, text]) =>
              html`<dt>${name}</dt>
                <dd>${text}</dd> `,
          )}
        </dl>
        <h2>In short</h2>
        ${summary(incident).map((sentence) => html`<p>${whole(sentence)}</p> `)}
        ${
          gaps.length === 0
            ? ''
            : html`<h3>Not known</h3>
                ${gaps.map((gap) => html`<p>${intervalText(gap)}: ${gap.why}</p> `)}`
        }
        <h2>The fabric</h2>
        <div class="charts">${chartsOfTotals(incident).map((chart) => svg(chart, incident))}</div>
        ${incident.ports.map((port) => ofPort(incident, port))}
        ${incident.ports.length === 0 ? html`<p class="muted">${nothing(incident).notices}</p>` : ''}
        <h2>Events</h2>
        <p class="muted">
          ${incident.events.length.toLocaleString()} events, the oldest first; times are local,
          ${zones(incident)}.
        </p>
        ${
          incident.events.length === 0
            ? ''
            : table(
                ['Time', 'Event', 'Where', 'What'],
                incident.events.map((event) => eventRow(event, moment)),
              )
        }
        <h2>Changed by operators</h2>
        ${
          incident.audit.length === 0
            ? html`<p class="muted">${nothing(incident).changes}</p>`
            : table(
                ['Time', 'By', 'What', 'Changes'],
                incident.audit.map((entry) => [
                  moment(entry.at_s),
                  entry.by,
                  deedOf(entry),
                  changesOf(entry),
                ]),
              )
        }
      </body>
    </html> `.text;
}
