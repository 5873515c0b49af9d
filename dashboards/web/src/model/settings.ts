/** Settings: what somebody has typed and not yet put in force, and what the API says against it. */

import type { AuditEntry, Setting, Step } from './types';

/** What was typed for a setting, and its value when that began. `null`: the file's value again. */
export interface Draft {
  text: string | null;
  was: string;
}

export type Drafts = Readonly<Record<string, Draft>>;

/** The settings in sections, in the order of the API, but those that nothing here can change last. */
export function sections(settings: readonly Setting[]): [string, Setting[]][] {
  const found = new Map<string, Setting[]>();
  for (const setting of settings) {
    const section = found.get(setting.section);
    if (section === undefined) found.set(setting.section, [setting]);
    else section.push(setting);
  }
  const isFixed = ([, of]: [string, Setting[]]): boolean => !of.some(isLive);
  return [...found].sort((one, other) => Number(isFixed(one)) - Number(isFixed(other)));
}

const isLive = ({ scope }: Setting): boolean => scope === 'live';

/** The settings with these words in their keys, values or descriptions. */
export function found(
  settings: readonly Setting[],
  words: string,
  onlyChanged: boolean,
): Setting[] {
  const wanted = words.toLowerCase().split(/\s+/);
  return settings.filter((setting) => {
    const { key, value, description, changed } = setting;
    const text = `${key} ${value} ${description}`.toLowerCase();
    return (!onlyChanged || changed !== null) && wanted.every((word) => text.includes(word));
  });
}

/** A key without its section. */
export const nameOf = ({ key, section }: Setting): string =>
  key === section ? key : key.slice(section.length + 1);

/** What a draft would make of a setting, as far as that can be told without asking. */
export const wanted = (setting: Setting, draft: Draft): string =>
  draft.text === null ? setting.configured : tidy(setting, draft.text);

/** What was typed without what means nothing: YAML's lines begin with spaces that do. */
const tidy = ({ kind }: Setting, text: string): string =>
  kind === 'list' ? text.trimEnd() : text.trim();

/** What is to be asked for: the drafts that differ from what is in force. */
export function changesOf(
  settings: readonly Setting[],
  drafts: Drafts,
): Record<string, string | null> {
  const changes: Record<string, string | null> = {};
  for (const setting of settings) {
    const draft = drafts[setting.key];
    if (draft === undefined || wanted(setting, draft) === setting.value) continue;
    changes[setting.key] = draft.text === null ? null : tidy(setting, draft.text);
  }
  return changes;
}

/** Whether somebody else has given a setting another value since its draft was begun. */
export const changedMeanwhile = (setting: Setting, draft: Draft): boolean =>
  setting.value !== draft.was;

/** The drafts that are not among those that were asked for: what was typed since. `steps`: what has
 * been put in force. */
export function typedSince(drafts: Drafts, asked: Drafts, steps: readonly Step[]): Drafts {
  const now = new Map(steps.map(({ key, to }) => [key, to]));
  return Object.fromEntries(
    Object.entries(drafts)
      .filter(([key, draft]) => draft !== asked[key])
      .map(([key, draft]) => [key, { ...draft, was: now.get(key) ?? draft.was }]),
  );
}

/** What to say of a change that was not confirmed, and why. `settings`: as they were told since; null
 * if they were not. */
export function lostText(
  why: string,
  steps: readonly Step[],
  settings: readonly Setting[] | null,
): string {
  const lost = `This change was not confirmed (${why}).`;
  if (settings === null) return `${lost} It may be in force: what is in force is asked for.`;
  const now = steps.map(({ key, to }) => {
    const value = settings.find((one) => one.key === key)?.value;
    return { is: value === to, text: `${key} is ${value}${value === to ? '' : `, not ${to}`}` };
  });
  const what = now.map(({ text }) => text).join('; ');
  if (now.every(({ is }) => is)) return `${lost} It is in force: ${what}.`;
  return `${lost} It is not in force now: ${what}.`;
}

/** What the API refuses, by the settings that it is about. Each line of a detail begins with a key,
 * or with one within a list; the others are told under ''. */
export function refusals(detail: string, keys: readonly string[]): Record<string, string> {
  const told: Record<string, string> = {};
  for (const line of detail.split('\n')) {
    const [where = ''] = line.split(': ', 1);
    const key = keys.find((one) => where === one || where.startsWith(`${one}.`)) ?? '';
    const text = key !== '' && where === key ? line.slice(where.length + 2) : line;
    told[key] = told[key] === undefined ? text : `${told[key]}\n${text}`;
  }
  return told;
}

const EXAMPLES: Partial<Record<Setting['kind'], string>> = {
  duration: 'a time with its unit, such as 20 ms',
  size: 'a size with its unit, such as 64 KiB',
  rate: 'a rate with its unit, such as 1 Gbit/s',
  number: 'a number',
  list: 'in YAML, as in the configuration file',
};

export const exampleOf = ({ kind }: Setting): string | null => EXAMPLES[kind] ?? null;

/** The values that a setting can have, if they can be listed. */
export function choicesOf({ kind, choices }: Setting): string[] | null {
  if (kind === 'boolean') return ['true', 'false'];
  return kind === 'choice' ? choices : null;
}

/** Entries of the audit log in one list, the newest first, each once. */
export function merged(
  known: readonly AuditEntry[],
  more: readonly AuditEntry[],
): readonly AuditEntry[] {
  const ids = new Set(known.map(({ id }) => id));
  const added = more.filter(({ id }) => !ids.has(id));
  if (added.length === 0) return known;
  return [...known, ...added].sort((one, other) => Number(other.id) - Number(one.id));
}

const DEEDS: Record<AuditEntry['what'], string> = {
  settings: 'changed settings',
  undo: 'took a change back',
  off: 'turned regulation off',
  on: 'turned regulation on',
  reload: 'reloaded the configuration',
};

export const deedOf = ({ what }: AuditEntry): string => DEEDS[what] ?? what;

export const stepText = ({ key, from, to }: Step): string => `${key}: ${from} → ${to}`;
