import { expect, test } from 'vitest';

import type { Incident } from './incident';
import { html } from './markup';
import { report } from './report';
import type { History, SeriesName, Values } from './types';

test('values are escaped, but for markup', () => {
  const hostile = `<script>alert("1")</script> & 'x'`;
  expect(html`<b title="${hostile}">${[html`<i>${hostile}</i>`]}</b>${3}`.text).toBe(
    '<b title="&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;x&#39;">' +
      '<i>&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;x&#39;</i></b>3',
  );
  expect(html`${'a\u0000b\u001b'}`.text).toBe('a\ufffdb\ufffd');
});

const HOSTILE = `"><img src=x onerror=alert(1)><svg onload='alert(2)'>`;
const values: Values = [1, 2];
const history: History = {
  ...{ step_s: 1, begin_s: 100 },
  series: new Proxy({} as Record<SeriesName, Values>, { get: () => values }),
};
const place = { datapath_id: HOSTILE, port: 3, name: HOSTILE };

/** All that others have chosen is hostile. */
const incident = {
  ...{ from_s: 100, to_s: 110, asked_s: 200, version: HOSTILE, port: place, totals: history },
  ports: [{ ...place, worst: 'H', notices: 1, history }],
  events: [
    { event: HOSTILE, wall_s: 101, [HOSTILE]: HOSTILE, port: HOSTILE, switch: HOSTILE },
    { event: 'queue_event', wall_s: 101, notice: HOSTILE, bytes: 1, port: `${HOSTILE}:3` },
    { event: 'link_up', wall_s: 101, a: HOSTILE, b: { [HOSTILE]: HOSTILE } },
  ],
  ...{ events_left_out: 0, events_from_s: null },
  gaps: [{ from_s: 100, to_s: 101, why: HOSTILE }],
  snapshots: [
    {
      ...{ at_s: 102, ...place },
      queue: { limit_bytes: 10, rate_bps: 10, levels: null },
      regulation: {
        ...{ scheme: HOSTILE, burst_flows: 1, background_flows: 1 },
        holds: { [HOSTILE]: { window_bytes: 1, credit: null } },
      },
      flows: [
        {
          ...{ src: HOSTILE, src_port: 1, dst: HOSTILE, dst_port: 2, class: HOSTILE },
          ...{ treatment: HOSTILE, counted: true, volume_bytes: 1 },
        },
      ],
    },
  ],
  audit: [
    {
      ...{ id: HOSTILE, at_s: 101, by: HOSTILE, what: HOSTILE, detail: HOSTILE },
      changes: [{ key: HOSTILE, from: HOSTILE, to: HOSTILE }],
    },
  ],
} as unknown as Incident;

test('what others have chosen is text in the file', () => {
  const text = report(incident, { by: HOSTILE, at_s: 200, weir: HOSTILE });
  expect(text.match(/<img|<svg onload/g)).toBeNull();
  // Each of them is there, though.
  expect(text.split('&quot;&gt;&lt;img src=x onerror=alert(1)&gt;').length).toBeGreaterThan(20);
});

test('a moment of another day than the first has its day in the file', () => {
  const midnight_s = new Date(2026, 10, 25).getTime() / 1000;
  const later = [{ event: 'odd', wall_s: midnight_s + 1 }];
  const long = { ...incident, from_s: midnight_s - 5, to_s: midnight_s + 5, events: later };
  expect(report(long, { by: 'ops', at_s: 200, weir: 'weir' })).toContain(
    '>2026-11-25 00:00:01.000<',
  );
});

test('the file says what Weir did, and what is only not known', () => {
  const text = report(incident, { by: 'ops', at_s: 200, weir: 'weir' });
  expect(text).toContain('3 requests were held, for 3 s in all (2 s of 10 s are known).');
  const none = report(
    { ...incident, ports: [], audit: [] },
    { by: 'ops', at_s: 200, weir: 'weir' },
  );
  expect(none).toContain('No notice is known of.');
  expect(none).toContain('No change is known of this time.');
});

test('the file forbids itself to load and to run anything', () => {
  const text = report(incident, { by: 'ops', at_s: 200, weir: 'weir' });
  expect(text).toMatch(/^<!doctype html>/);
  expect(text).toContain(`content="default-src &#39;none&#39;; style-src &#39;unsafe-inline&#39;;`);
  expect(text.match(/<script|<link|<iframe|<a |\b(?:src|href|on\w+)="|url\(/g)).toBeNull();
});

test('the second line of a chart is not told by its colour alone, in its legend neither', () => {
  const text = report({ ...incident, port: null }, { by: 'ops', at_s: 200, weir: 'weir' });
  // Requests and losses of the fabric have two lines.
  for (const colour of ['#6d43b8', '#b8102f']) {
    const lines = text.match(new RegExp(`<path [^>]*stroke="${colour}"[^>]*>`, 'g')) ?? [];
    const drawn = lines.filter((line) => /class="line"|M0 5H/.test(line));
    expect(drawn).toHaveLength(2);
    for (const line of drawn) expect(line).toContain('stroke-dasharray="7 4"');
  }
  expect(text.match(/stroke="#0b5cad"[^>]*dash/)).toBeNull();
});
