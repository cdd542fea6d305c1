import type { ParsedValue } from '../lib/settings/parse-values.ts';
import { nearest } from '../lib/text.ts';
import type { Event, EventError } from './event.ts';

/*
 * Turns events into messages for people.
 *
 * A template is one line of text with fields such as `{{bundle}}`. There are no conditions, loops or
 * expressions.
 */

const fieldNames = [
  'outcome',
  'pipeline',
  'destination',
  'bundle',
  'release',
  'channel',
  'code',
  'cause',
  'next',
  'run',
  'event',
  'act',
  'actor',
] as const;

type FieldName = (typeof fieldNames)[number];
/** The value of each field. If an event does not have a field, it is empty. */
type Fields = Record<FieldName, string>;

export const maxTemplateChars = 500;

const field = /\{\{ *([^{}]*?) *\}\}/g;

export function parseTemplate(text: string): ParsedValue<string> {
  if (text.length > maxTemplateChars)
    return { ok: false, reason: `it has more than ${maxTemplateChars} characters` };
  for (const [, name = ''] of text.matchAll(field)) {
    if ((fieldNames as readonly string[]).includes(name)) continue;
    const guess = nearest(name, fieldNames);
    const hint = guess === undefined ? `the fields are ${fieldNames.join(', ')}` : `did you mean "${guess}"?`;
    return { ok: false, reason: `it has the unknown field "${name.slice(0, 64)}"; ${hint}` };
  }
  return /\{\{|\}\}/.test(text.replaceAll(field, ''))
    ? { ok: false, reason: 'it has "{{" or "}}" outside of a field' }
    : { ok: true, value: text };
}

/** Fills in the fields of a valid template. Only the values are escaped, and not the template itself. */
export function fillTemplate(template: string, fields: Fields, escape: (value: string) => string): string {
  return template.replaceAll(field, (_, name: FieldName) => escape(fields[name])).trim();
}

/*
 * A message about an event, for people to read. Bundle names and error messages come from producers and
 * servers, so the sink that sends the message has to escape them.
 */

export interface Message {
  /** A single sentence, such as `Failed to publish "talk" to maps/web`. */
  title: string;
  /** Labels with their values. None of them has a line break. */
  rows: readonly (readonly [label: string, value: string])[];
  /** The URL of the run or pipeline in the console; null if `console_url` is not set. */
  link: string | null;
  fields: Fields;
}

interface MessageOptions {
  /** The base URL of the daemon, which ends with a slash; null to leave out links. */
  consoleUrl: string | null;
  /** How long names and ids can be, in characters. Error messages can be twice as long. */
  maxValueChars: number;
}

/** The parts of a message, before they are put together. */
interface MessageParts {
  outcome: string;
  title: string;
  rows?: [label: string, value: string][];
  error?: EventError;
  /** Default: the code of `error`. */
  code?: string | null;
  next?: string;
}

export function messageOf(event: Event, { consoleUrl, maxValueChars }: MessageOptions): Message {
  const short = (text: string): string => shortened(oneLine(text), maxValueChars);
  const long = (text: string): string => shortened(oneLine(text), 2 * maxValueChars);
  const subject = subjectOf(event, short);
  const report = reportOf(event, subject, short);
  const { outcome, title, rows = [], error, code = error?.code, next = error?.hint ?? '' } = report;
  const { pipeline, destination, bundle, release, channel, run } = subject;
  const cause = error === undefined ? '' : long(error.message);
  const all: [string, string][] = [
    ['Pipeline', pipeline],
    ['Destination', destination],
    ['Bundle', bundle],
    ['Release', release],
    ['Channel', channel],
    ...rows,
    ['Cause', error === undefined ? '' : `${cause} (${error.code})`],
    ['Next step', long(next)],
    ['Run', run],
    ['Time', formatTime(event.timestamp)],
  ];
  return {
    title,
    rows: all.filter(([, value]) => value !== ''),
    link: consoleUrl === null ? null : linkOf(event, consoleUrl),
    fields: { ...subject, outcome, cause, code: code ?? '', next: long(next), event: event.type },
  };
}

type Subject = Omit<Fields, 'outcome' | 'cause' | 'code' | 'next' | 'event'>;

function subjectOf({ data }: Event, short: (text: string) => string): Subject {
  const of = (value: string | null | undefined): string => short(value ?? '');
  if ('record' in data) {
    const { act, actor, detail, pipeline_id, destination_id, run_id } = data.record;
    const fact = (name: string): string => of(detail[name]?.toString());
    return {
      pipeline: of(pipeline_id),
      destination: of(destination_id),
      bundle: fact('path'),
      run: of(run_id),
      release: fact('release'),
      channel: fact('channel'),
      act,
      actor: short(actor.id === null ? actor.type : `${actor.type} ${actor.id}`),
    };
  }
  return {
    pipeline: 'pipeline_id' in data ? of(data.pipeline_id) : '',
    destination: 'destination_id' in data ? of(data.destination_id) : '',
    bundle: of(bundleOf(data)),
    release: 'release' in data ? of(data.release) : '',
    channel: 'channel' in data ? of(data.channel) : '',
    run: 'run_id' in data ? of(data.run_id) : '',
    act: '',
    actor: '',
  };
}

/** Returns the name of the bundle or, if it has none, its path. */
function bundleOf(data: Event['data']): string | null {
  const bundle = 'bundle' in data ? data.bundle : null;
  const path = 'destination_path' in data ? data.destination_path : null;
  return bundle?.name ?? bundle?.path ?? path;
}

function reportOf(event: Event, subject: Subject, short: (text: string) => string): MessageParts {
  const { pipeline, destination, bundle } = subject;
  const place = destination === '' ? pipeline : `${pipeline}/${destination}`;
  const what = bundle === '' ? '' : `"${bundle}" `;
  switch (event.type) {
    case 'bundle.published': {
      const { outputs, outputs_written, outputs_removed } = event.data.counts;
      const counts = `${outputs} (${outputs_written} written, ${outputs_removed} removed)`;
      return { outcome: 'published', title: `Published ${what}to ${place}`, rows: [['Outputs', counts]] };
    }
    case 'bundle.publish_failed':
      return { outcome: 'failed', title: `Failed to publish ${what}to ${place}`, error: event.data.error };
    case 'run.retry_scheduled': {
      const { attempt, next_try_at, error } = event.data;
      const next = `waybill tries again at ${formatTime(next_try_at)} (try ${attempt})`;
      return { outcome: 'retrying', title: `Failed to publish to ${place}, will retry`, error, next };
    }
    case 'bundle.unpublished':
      return {
        outcome: 'unpublished',
        title: `Unpublished ${what}from ${place}`,
        rows: [['Outputs removed', String(event.data.counts.outputs_removed)]],
      };
    case 'release.activated':
    case 'release.rolled_back': {
      const isBack = event.type === 'release.rolled_back';
      return {
        outcome: isBack ? 'rolled back' : 'activated',
        title: isBack ? `Rolled back ${what}at ${place}` : `Activated a release of ${what}at ${place}`,
        rows: [['Previous release', short(event.data.previous ?? '')]],
      };
    }
    case 'outputs.pruned':
      return {
        outcome: 'pruned',
        title: `Pruned outputs at ${place}`,
        rows: [['Outputs removed', String(event.data.counts.outputs_removed)]],
      };
    case 'audit.recorded': {
      const { result: outcome, code, address } = event.data.record;
      const end = outcome === 'done' ? '' : ` ${outcome}${code === null ? '' : ` (${code})`}`;
      return {
        outcome,
        code,
        title: `Audit: ${subject.act} by ${subject.actor}${end}`,
        rows: [['Address', short(address ?? '')]],
      };
    }
    case 'notifier.test':
      return { outcome: 'test', title: `Test of notifier ${event.data.notifier_id}` };
  }
}

function linkOf({ data }: Event, consoleUrl: string): string {
  if ('record' in data) return `${consoleUrl}console/audit`;
  if ('run_id' in data && data.run_id !== null)
    return `${consoleUrl}console/runs/${encodeURIComponent(data.run_id)}`;
  if ('pipeline_id' in data) return `${consoleUrl}console/pipelines/${encodeURIComponent(data.pipeline_id)}`;
  return `${consoleUrl}console`;
}

/** Formats a time, as in `2026-11-20 02:04:34 UTC`. The argument is in RFC 3339 and UTC. */
function formatTime(timestamp: string): string {
  return `${timestamp.slice(0, 10)} ${timestamp.slice(11, 19)} UTC`;
}

/**
 * Replaces line breaks, control characters, bidirectional controls and lone surrogates. None of them should
 * end up in a header, a log line or a chat.
 */
export function oneLine(text: string): string {
  return text.toWellFormed().replaceAll(/(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\uFFFD');
}

/**
 * Returns text with no more than `maxChars` UTF-16 code units. If some of it is cut off, the last one is an
 * ellipsis.
 */
export function shortened(text: string, maxChars: number): string {
  return text.length <= maxChars ? text : `${text.slice(0, maxChars - 1).replace(/[\ud800-\udbff]$/, '')}…`;
}
