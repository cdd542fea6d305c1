import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

/** The corpus: unusual public weather data, as patches of recorded samples with the expected answers. */

export const corpusDirectory = 'test/fixtures/weather-corpus';
const samples = 'test/fixtures/weather';

/** A document: a changed sample or text. `set` and `remove` have paths such as `features.0.geometry`. */
interface DocumentSpec {
  /** The name of its file. */
  name?: string;
  sample?: string;
  raw?: string;
  json?: unknown;
  /** The numbers of the features of a collection that are kept. */
  pick?: number[];
  set?: Record<string, unknown>;
  remove?: string[];
  replace?: [from: string, to: string][];
}

/** Requests and the clock. A case inherits them from its file unless it sets them. */
interface Asked {
  /** A path of the API, without `format`. */
  ask: string;
  page: string;
  now: string;
  /** Documents to load before. */
  before: DocumentSpec[];
  /** The list of the record that becomes features of GeoJSON. */
  items?: string;
  /** The list of the record that becomes rows of CSV. */
  rows?: string;
}

export interface CorpusCase extends Asked {
  odd: string;
  who: string;
  right: string;
  documents: [name: string, text: string][];
  /** The feeder's report about the last document: its outcome, and one pattern for each omitted part. */
  outcome: string;
  noted: string[];
  /** Values of the record by path. `meta.…` is next to the record, and `data` is the record itself. */
  data: Record<string, unknown>;
  /** Words of the answers, with any white space. Words after `!` must not occur. */
  text: string[];
  words: string[];
}

interface CaseSpec extends Partial<Asked>, DocumentSpec {
  odd: string;
  who: string;
  right: string;
  /** Several documents in order, instead of one. */
  documents?: DocumentSpec[];
  outcome?: string;
  noted?: string[];
  data: Record<string, unknown>;
  text: string[];
  words: string[];
}

export interface CorpusFile {
  name: string;
  kind: string;
  /** Formats of the endpoint in addition to JSON, XML and text. */
  formats: string[];
  cases: CorpusCase[];
}

interface FileSpec extends Partial<Asked> {
  kind: string;
  formats: string[];
  document: DocumentSpec;
  cases: CaseSpec[];
}

/** Every case, by its file. */
export function corpus(): CorpusFile[] {
  return readdirSync(corpusDirectory)
    .filter((name) => name.endsWith('.yaml'))
    .sort()
    .map((name) => {
      const file = parse(readFileSync(join(corpusDirectory, name), 'utf8')) as FileSpec;
      const { kind, formats, cases } = file;
      return { name: name.replace('.yaml', ''), kind, formats, cases: cases.map((one) => caseOf(one, file)) };
    });
}

function caseOf(one: CaseSpec, file: FileSpec): CorpusCase {
  const { document, ask = '', page = '', now = '2026-01-20T18:20:00Z', before = [], items, rows } = file;
  const own = one.documents ?? [one];
  const lists = { ...(items === undefined ? {} : { items }), ...(rows === undefined ? {} : { rows }) };
  const asked = { ask, page, now, before, ...lists, ...one };
  return {
    ...asked,
    documents: [...asked.before, ...own.map((spec) => withSample(spec, document))].map(documentOf),
    outcome: one.outcome ?? 'loaded',
    noted: one.noted ?? [],
  };
}

/** A change of the sample of its file, unless it is a whole document. */
function withSample(spec: DocumentSpec, { name, ...sample }: DocumentSpec): DocumentSpec {
  const isWhole = spec.raw !== undefined || spec.json !== undefined;
  return { ...(name === undefined ? {} : { name }), ...(isWhole ? {} : sample), ...spec };
}

function documentOf(spec: DocumentSpec): [name: string, text: string] {
  const { name = 'document.json', sample, json, pick, set = {}, remove = [], replace = [] } = spec;
  let raw =
    spec.raw ??
    (json === undefined ? readFileSync(join(samples, sample ?? ''), 'utf8') : JSON.stringify(expanded(json)));
  if (pick !== undefined || Object.keys(set).length > 0 || remove.length > 0) {
    const document = JSON.parse(raw) as Record<string, unknown>;
    if (pick !== undefined) {
      const features = document['features'] as unknown[];
      document['features'] = pick.map((index) => structuredClone(features[index]));
    }
    for (const [path, value] of Object.entries(set)) setAt(document, path, expanded(value));
    for (const path of remove) setAt(document, path, undefined);
    raw = JSON.stringify(document);
  }
  for (const [from, to] of replace) {
    if (!raw.includes(from)) throw new Error(`${name} does not hold ${from}`);
    raw = raw.replaceAll(from, to);
  }
  return [name, raw];
}

function setAt(document: Record<string, unknown>, path: string, value: unknown): void {
  const steps = path.split('.');
  const last = steps.pop() ?? '';
  let at = document;
  for (const step of steps) at = (at[step] ??= {}) as Record<string, unknown>;
  at[last] = value;
}

/** `{box: [west, south, east, north]}` is a polygon. */
function expanded(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(expanded);
  if (typeof value !== 'object' || value === null) return value;
  if ('box' in value) {
    const [west, south, east, north] = value.box as number[];
    const ring = [
      [west, south],
      [east, south],
      [east, north],
      [west, north],
      [west, south],
    ];
    return { type: 'Polygon', coordinates: [ring] };
  }
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, expanded(inner)]));
}
