import type { OutputRecord } from '../../core/catalog/catalog.ts';
import { readState, requireCatalog } from '../../core/catalog/catalog-store.ts';
import { managedPaths } from '../../core/catalog/managed-paths.ts';
import type { Config } from '../../core/config/config.ts';
import type { CoreContext } from '../../core/context.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { verify, type VerifyReport } from '../../core/maintain/verify.ts';
import {
  bundlePlace,
  destinationNamed,
  releaseNamed,
  withDestination,
} from '../../core/releases/bundle-place.ts';
import {
  bundlePathsAmong,
  catalogOf,
  differenceBetween,
  publishedState,
} from '../../core/releases/describe.ts';
import { releaseKey } from '../../core/releases/release.ts';
import type { Storage } from '../../core/storage/storage.ts';
import { subdirectory } from '../../core/storage/wrappers/subdirectory.ts';
import type { TraceContext } from '../../core/tracing/trace-context.ts';

/**
 * A request to read what is published at a destination: one page of a catalog, the differences between two
 * releases, or a check of the published bytes against the catalog. It does not write anything. A catalog can
 * have half a million outputs, so this is handled on a thread, and the request is plain data.
 */
export type InspectionRequest = RequestTarget & (CatalogQuestion | CompareQuestion | { kind: 'verify' });

interface RequestTarget extends TraceContext {
  /** Identifies the request in the log, just like a run's id. */
  runId: string;
  pipelineId: string;
  destinationId: string;
  /** The bundle path at the destination, where `.` is the root. null chooses the first one. */
  path: string | null;
}

interface CatalogQuestion {
  kind: 'catalog';
  /** The release or channel to read instead of the published state. Requires a bundle path. */
  release?: string | null;
  /** Selects only outputs whose paths start with this prefix. */
  prefix: string;
  /** Only return outputs that come after this path. */
  after: string | null;
  /** The maximum number of outputs to return. */
  limit: number;
}

interface CompareQuestion {
  kind: 'compare';
  from: string;
  to: string;
}

export type InspectionAnswer = CatalogPage | ComparedFiles | { kind: 'verify'; reports: VerifyReport[] };

/** The files that are different between two releases, as in `ReleaseDifference`. */
export interface ComparedFiles extends Record<'added' | 'changed' | 'removed', DifferentFile[]> {
  kind: 'compare';
  /** How many files are the same. */
  same: number;
  /** How many different files are not listed. */
  omitted: number;
}

/** A file that is different, with its size in bytes in both releases; null where it does not exist. */
export interface DifferentFile {
  path: string;
  before: number | null;
  after: number | null;
}

export interface CatalogPage {
  kind: 'catalog';
  /** The bundle paths at which something is published, in order. At most `maxPaths`. */
  paths: string[];
  pathsOmitted: number;
  /** null if nothing is published at this destination. */
  catalog: CatalogView | null;
}

export interface CatalogView {
  destinationPath: string;
  /** The release that was read, or null for in-place publication. */
  release: string | null;
  /** Whether readers get it. */
  isPublished: boolean;
  generation: number;
  updatedAt: string;
  isInterrupted: boolean;
  /** The number of outputs whose paths start with the prefix. */
  total: number;
  bytes: number;
  /** How many of them are kept from earlier bundles. Always 0 for releases, which are written as a whole. */
  kept: number;
  outputs: OutputLine[];
  /** The pages to start reading at: the index and the scene maps. */
  pages: OutputLine[];
  /** The path after which the next page starts, or null if this is the last one. */
  next: string | null;
}

export interface OutputLine extends Pick<
  OutputRecord,
  'path' | 'kind' | 'digest' | 'size' | 'url' | 'updatedAt'
> {
  owner: string;
  /** Whether it is not in the newest bundle of its owner, and stays published. */
  isKept: boolean;
}

/** The maximum number of bundle paths in an answer. */
const maxPaths = 500;
const maxDifferences = 1_000;

/**
 * Answers a request. Throws `destination_not_found`, `release_not_found`, `not_published`, `state_conflict`,
 * or the storage's error.
 */
export async function answerInspection(
  context: CoreContext,
  { pipelines }: Pick<Config, 'pipelines'>,
  request: InspectionRequest,
): Promise<InspectionAnswer> {
  const pipeline = pipelines.find(({ id }) => id === request.pipelineId);
  if (pipeline === undefined)
    throw new WaybillError(
      'pipeline_not_found',
      `the pipeline "${request.pipelineId}" is not configured here`,
    );
  const destination = destinationNamed(pipeline, request.destinationId);
  const layout = destination.releases === null ? 'in_place' : 'releases';
  return withDestination(context, destination, { readOnly: true }, async (root) => {
    if (request.kind === 'catalog') return catalogPage(root, request, layout);
    const place = bundlePlace(root, request.path ?? '.');
    if (request.kind === 'compare') {
      const [from, to] = [await releaseNamed(place, request.from), await releaseNamed(place, request.to)];
      const before = await catalogOf(place.storage, from);
      return compared(before.outputs, (await catalogOf(place.storage, to)).outputs);
    }
    const { release } = await publishedState(place.storage, layout);
    const storage = release === null ? place.storage : subdirectory(place.storage, releaseKey(release));
    const { fileConcurrency, releases } = destination;
    const reading = { concurrency: fileConcurrency, lingerMs: releases?.lingerMs ?? null };
    return { kind: 'verify', reports: await verify(storage, reading) };
  });
}

async function catalogPage(
  root: Storage,
  { path, ...question }: RequestTarget & CatalogQuestion,
  layout: 'in_place' | 'releases',
): Promise<CatalogPage> {
  const paths = bundlePathsAmong(await managedPaths(root));
  // The root usually contains nothing but the index of the other bundles.
  const shownPath = path ?? paths.find((one) => one !== '.') ?? paths[0];
  const named = { kind: 'catalog' as const, paths: paths.slice(0, maxPaths) };
  const pathsOmitted = Math.max(0, paths.length - maxPaths);
  if (shownPath === undefined) return { ...named, pathsOmitted, catalog: null };
  if (!paths.includes(shownPath))
    throw new WaybillError('not_published', `nothing is published at the bundle path "${shownPath}"`, {
      hint: 'choose one of the list',
    });
  const place = bundlePlace(root, shownPath);
  const published = await publishedState(place.storage, layout);
  const chosen = question.release == null ? null : await releaseNamed(place, question.release);
  const isPublished = chosen === null || chosen === published.release;
  const release = chosen ?? published.release;
  const { state } = isPublished
    ? published
    : await readState(subdirectory(place.storage, releaseKey(chosen)));
  const catalog = requireCatalog(state);
  const { generation, updatedAt, pending } = catalog;
  const about = { destinationPath: shownPath, release, isPublished, isInterrupted: pending !== null };
  return {
    ...named,
    pathsOmitted,
    catalog: {
      ...about,
      generation,
      updatedAt,
      ...pageOf(catalog.outputs, question),
      pages: pagesAmong(catalog.outputs),
    },
  };
}

const maxPages = 5;

function pagesAmong(outputs: readonly OutputRecord[]): OutputLine[] {
  const sceneMaps = outputs.filter(({ kind }) => kind === 'scene_map_page');
  const index = outputs.filter(({ path }) => path === 'index.html');
  const newest = newestByOwner(outputs);
  return [...sceneMaps.slice(0, maxPages), ...index].map((output) => lineOf(output, newest));
}

/** Returns one page of the outputs, sorted by path. */
export function pageOf(
  outputs: readonly OutputRecord[],
  { prefix, after, limit }: Omit<CatalogQuestion, 'kind' | 'release'>,
): Pick<CatalogView, 'total' | 'bytes' | 'kept' | 'outputs' | 'next'> {
  const newest = newestByOwner(outputs);
  const matching = outputs.filter(({ path }) => path.startsWith(prefix));
  const from = after === null ? 0 : matching.findIndex(({ path }) => path > after);
  const page = from === -1 ? [] : matching.slice(from, from + limit);
  const last = page.at(-1)?.path;
  return {
    total: matching.length,
    bytes: matching.reduce((sum, { size }) => sum + size, 0),
    kept: matching.filter((output) => isKept(output, newest)).length,
    outputs: page.map((output) => lineOf(output, newest)),
    next: last !== undefined && last !== matching.at(-1)?.path ? last : null,
  };
}

function lineOf(output: OutputRecord, newest: ReadonlyMap<string, string>): OutputLine {
  const { path, kind, digest, size, url, updatedAt } = output;
  return { path, kind, digest, size, url, updatedAt, owner: ownerOf(output), isKept: isKept(output, newest) };
}

function ownerOf({ owner }: OutputRecord): string {
  return `${owner.pipelineId}/${owner.destinationId}`;
}

/** Returns when each owner last published. A publication gives all files of its bundle the same time. */
function newestByOwner(outputs: readonly OutputRecord[]): Map<string, string> {
  const newest = new Map<string, string>();
  for (const output of outputs) {
    const owner = ownerOf(output);
    if (output.updatedAt > (newest.get(owner) ?? '')) newest.set(owner, output.updatedAt);
  }
  return newest;
}

function isKept(output: OutputRecord, newest: ReadonlyMap<string, string>): boolean {
  return output.updatedAt < (newest.get(ownerOf(output)) ?? '');
}

function compared(before: readonly OutputRecord[], after: readonly OutputRecord[]): ComparedFiles {
  const { added, removed, changed, same } = differenceBetween(before, after);
  const all = added.length + removed.length + changed.length;
  const sizeIn = (outputs: readonly OutputRecord[]): Map<string, number> =>
    new Map(outputs.map(({ path, size }) => [path, size]));
  const [old, current] = [sizeIn(before), sizeIn(after)];
  const listed = (paths: readonly string[]): DifferentFile[] =>
    paths.slice(0, maxDifferences).map((path) => ({
      path,
      before: old.get(path) ?? null,
      after: current.get(path) ?? null,
    }));
  const lists = { added: listed(added), removed: listed(removed), changed: listed(changed) };
  const shown = lists.added.length + lists.removed.length + lists.changed.length;
  return { kind: 'compare', ...lists, same, omitted: all - shown };
}
