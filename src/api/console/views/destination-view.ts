import type { ErrorRecord } from '../../../core/lib/errors.ts';
import { formatRate } from '../../../core/lib/settings/transfer-rate.ts';
import type { RunRecord } from '../../../workers/queue/run-record.ts';
import type { CatalogPage, CatalogView, OutputLine } from '../../../workers/threads/inspection-request.ts';
import type { DestinationSummary } from '../../pipelines/pipelines-route.ts';
import { paths as pagePaths } from '../paths.ts';
import {
  ageText,
  destinationMark,
  type Mark,
  type Moment,
  momentOf,
  plural,
  shortMoment,
  sizeText,
} from '../record-text.ts';
import { type ErrorView, errorView } from './error-view.ts';
import { forceCommand, rerunHelps, type Starter, starterOf } from './run-words.ts';

/** One page of the files at a bundle path, with links to its directories. */
export interface CatalogPageView {
  /** The bundles, with the age of their newest publication, which is null if it is not known. */
  bundles: { path: string; name: string; isCurrent: boolean; age: string | null }[];
  bundlesOmitted: number;
  /** Whether there are few enough bundles to list them as links. */
  isShortList: boolean;
  /** Whether there are so many files that only some of them are wanted. */
  hasFilter: boolean;
  catalog:
    | (Omit<CatalogView, 'outputs' | 'bytes' | 'pages' | 'kept'> & {
        pages: { url: string; label: string }[];
        updated: Moment & { age: string; short: string };
        about: string;
        /** How many files are not in this bundle, in words; null if all are, or if it is not known. */
        kept: string | null;
        outputs: (OutputLine & { sizeText: string; short: string; updated: Moment & { short: string } })[];
        directories: { prefix: string; label: string }[];
      })
    | null;
}

const backends: Readonly<Record<string, string>> = {
  local: 'Local directory',
  sftp: 'SFTP server',
  s3: 'S3 bucket',
};
const mappings: Record<DestinationSummary['mapping'], string> = {
  preserve_relative: 'Each bundle is published at its own path',
  fixed: 'Only the newest bundle is published',
};
const workflows: Record<DestinationSummary['workflow'], string> = {
  additive: 'Files that a new version drops stay published.',
  replacement: 'Files that a new version drops are removed.',
};
const layouts: Record<DestinationSummary['layout'], string> = {
  releases: 'as releases that are switched in one step',
  in_place: 'in place, file by file',
};

interface Placement {
  storage: string;
  /** How bundles are published, in sentences. */
  publishing: string;
  /** null if transfers are not rate-limited. */
  rate: string | null;
}

/** Describes how a destination is configured, in words instead of setting names. */
export function placementOf({
  backend,
  mapping,
  workflow,
  layout,
  max_rate,
}: Pick<DestinationSummary, 'backend' | 'mapping' | 'workflow' | 'layout' | 'max_rate'>): Placement {
  const rate = max_rate === null ? null : `at most ${formatRate(max_rate)}`;
  return {
    storage: backends[backend] ?? backend,
    rate,
    publishing: [
      `${mappings[mapping]}, ${layouts[layout]}.`,
      workflows[workflow],
      ...(rate === null ? [] : [`Transfers use ${rate}.`]),
    ].join(' '),
  };
}

/** The newest finished run that published to a destination, or failed to. */
interface NewestRun {
  mark: Mark;
  href: string;
  starter: Starter;
  ended: Moment & { age: string };
  isRerunnable: boolean;
  /** Whether it could succeed without changes. */
  rerunHelps: boolean;
  /** How many runs in a row failed here, this one included. */
  failures: number;
  /** When the first of them failed; null if none did. */
  failingSince: { iso: string; short: string } | null;
  /** null if it succeeded. */
  error: ErrorView | null;
}

/**
 * Returns the newest finished run of a destination, except cancelled and superseded runs. `runs` must be
 * sorted newest first.
 *
 * @param place Where the destination is; null if the visitor may not see it.
 */
export function newestRunAt(
  runs: readonly RunRecord[],
  destinationId: string,
  { place, now }: { place: string | null; now: Date },
): NewestRun | null {
  const all = endsAt(runs, destinationId);
  const [newest] = all;
  if (newest === undefined) return null;
  const { run, error, ended } = newest;
  const success = all.findIndex((one) => one.error === null);
  const failed = success === -1 ? all : all.slice(0, success);
  const first = failed.at(-1);
  const command = error === null ? null : forceCommand(run, destinationId, error.hint ?? null);
  return {
    mark: destinationMark(error),
    href: pagePaths.run(run.run_id),
    starter: starterOf(run),
    ended: { ...momentOf(ended), age: ageText(ended, now) },
    ...{ isRerunnable: run.rerunnable, rerunHelps: rerunHelps(run) },
    failures: failed.length,
    failingSince: first === undefined ? null : { iso: first.ended, short: `${shortMoment(first.ended)} UTC` },
    error: error === null ? null : errorView(error, { place, command }),
  };
}

interface RunEnd {
  run: RunRecord;
  ended: string;
  error: ErrorRecord | null;
}

/** Returns the ends of the runs that published to a destination or failed to, in the order of the runs. */
export function endsAt(runs: readonly RunRecord[], destinationId: string): RunEnd[] {
  return runs.flatMap((run) => {
    const { destinations, error: ofRun, finished_at: ended } = run;
    const here = destinations.filter(({ destination_id: id }) => id === destinationId);
    if (ofRun?.code === 'cancelled' || ofRun?.code === 'superseded' || ended === null) return [];
    // A run that failed at its source has no destinations, and published nothing here either.
    if (here.length === 0 && ofRun === null) return [];
    const error = here.length === 0 ? ofRun : (here.find((one) => one.error !== null)?.error ?? null);
    return [{ run, ended, error }];
  });
}

const digestPrefix = 'sha256:';
const digestChars = 12;

/** Up to this many bundles are links, and more are in a menu. */
const maxLinks = 8;
/** Up to this many files need no filter. */
const maxUnfiltered = 20;

interface CatalogContext {
  prefix: string;
  /** The times at which runs last published to the bundle paths, as far as known. */
  published: ReadonlyMap<string, string>;
  /** The number of files in the newest bundle; null if its run is not known. */
  bundleFiles: number | null;
  now: Date;
}

export function catalogView(
  { paths, pathsOmitted, catalog }: CatalogPage,
  { prefix, published, bundleFiles, now }: CatalogContext,
): CatalogPageView {
  const bundles = paths.map((path) => ({
    ...{ path, name: nameOf(path), isCurrent: path === catalog?.destinationPath },
    age: ageOf(published.get(path), now),
  }));
  const isShortList = paths.length + pathsOmitted <= maxLinks;
  const timeOf = ({ path }: { path: string }): string => published.get(path) ?? '';
  if (isShortList) bundles.sort((a, b) => timeOf(b).localeCompare(timeOf(a)));
  const named = { bundles, bundlesOmitted: pathsOmitted, isShortList };
  if (catalog === null) return { ...named, hasFilter: false, catalog: null };
  const { outputs, bytes, pages, ...rest } = catalog;
  return {
    ...named,
    hasFilter: prefix !== '' || catalog.total > maxUnfiltered,
    catalog: {
      ...rest,
      updated: {
        ...momentOf(catalog.updatedAt),
        age: ageText(catalog.updatedAt, now),
        short: `${shortMoment(catalog.updatedAt)} UTC`,
      },
      about: `${plural(catalog.total, 'file')}, ${sizeText(bytes)}`,
      kept: prefix === '' ? keptText(catalog, bundleFiles) : null,
      outputs: inOrder(outputs, catalog.total).map((one) => ({
        ...one,
        sizeText: sizeText(one.size),
        short: one.digest.replace(digestPrefix, '').slice(0, digestChars),
        updated: { ...momentOf(one.updatedAt), short: shortMoment(one.updatedAt) },
      })),
      pages: openable(pages).map(({ url, path, kind }) => ({
        url,
        label: kind === 'scene_map_page' ? `Scene map ${path}` : 'Open the index',
      })),
      directories: directoriesOf(outputs, prefix),
    },
  };
}

const byNumbers = new Intl.Collator('en', { numeric: true });

/** Sorts `day-2` before `day-10` if all files are on one page. Pages are cut by code units. */
function inOrder(outputs: readonly OutputLine[], total: number): readonly OutputLine[] {
  return outputs.length < total ? outputs : [...outputs].sort((a, b) => byNumbers.compare(a.path, b.path));
}

/** A release is written as a whole, so only the run that published it knows the files of its bundle. */
export function keptText(
  { release, total, kept }: Pick<CatalogView, 'release' | 'total' | 'kept'>,
  bundleFiles: number | null,
): string | null {
  const earlier = release === null ? kept : bundleFiles === null ? 0 : total - bundleFiles;
  return earlier <= 0 ? null : `${total - earlier} in this bundle, ${earlier} kept from earlier ones`;
}

/** The root usually has an index of the bundles below it. */
function nameOf(path: string): string {
  return path === '.' ? 'At the root' : path;
}

function ageOf(iso: string | undefined, now: Date): string | null {
  return iso === undefined ? null : ageText(iso, now);
}

/**
 * Returns the pages that have an http or https URL. Catalogs are untrusted, so their URLs could use any
 * scheme.
 */
export function openable(pages: readonly OutputLine[]): (OutputLine & { url: string })[] {
  return pages.flatMap((one) =>
    one.url !== null && /^https?:/.test(one.url) ? [{ ...one, url: one.url }] : [],
  );
}

/** Returns links to the parent directory, and to the subdirectories with files on this page. */
function directoriesOf(outputs: readonly OutputLine[], prefix: string): { prefix: string; label: string }[] {
  const below = outputs.flatMap(({ path }) => {
    const end = path.indexOf('/', prefix.length);
    return end === -1 ? [] : [path.slice(0, end + 1)];
  });
  const up = prefix.replace(/[^/]*\/?$/, '');
  const down = [...new Set(below)].map((one) => ({ prefix: one, label: one }));
  return prefix === '' ? down : [{ prefix: up, label: '..' }, ...down];
}
