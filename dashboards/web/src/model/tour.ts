/** Five hints for whoever is here for the first time. */

import type { View } from './route';

export interface Hint {
  title: string;
  text: string;
  /** Which part of the header it is about. */
  about: View | 'health';
}

const LAST_READER: Hint = {
  title: 'What you may do',
  text: 'Your token may read: everything is shown, and nothing can be changed. With the scope “regulate”, a token may change settings and turn regulation off.',
  about: 'settings',
};
const LAST_OPERATOR: Hint = {
  title: 'What you may change',
  text: 'Settings shows what changes before it is in force, and takes it back with one click. Regulation can be turned off for a port, a switch or everything, also for a time. The audit log says who did what.',
  about: 'settings',
};

/** What is hinted at, for those who may change something and those who may not. */
export const hintsFor = (mayRegulate: boolean): readonly Hint[] => [
  {
    title: 'Is all well?',
    text: 'This line says so on every view, the worst first. What has lost its colour is not live; a banner says since when.',
    about: 'health',
  },
  {
    title: 'Where is it congested?',
    text: 'The overview lists the worst ports, and Fabric draws them where they are. A port leads to its queue with each notice, what is held there, and the windows in force.',
    about: 'fabric',
  },
  {
    title: 'Who causes it?',
    text: 'Flows finds connections by host, port and class. A row leads to one flow: its path port by port, its volume and rate, and what holds it.',
    about: 'flows',
  },
  {
    title: 'What happened?',
    text: 'Drag over a chart to pick a part of the time: one page then tells all of it, as a link and a file for a ticket. Events is the log, as it comes.',
    about: 'events',
  },
  mayRegulate ? LAST_OPERATOR : LAST_READER,
];
