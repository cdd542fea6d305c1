import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import ejs from 'ejs';
import type { Digest } from '../lib/digest.ts';
import { instantForPeople, parseInstant } from '../lib/instant.ts';
import { compareCodeUnits, type RelativePath } from '../lib/paths.ts';
import { formatSize } from '../lib/settings/sizes-and-durations.ts';
import { xmlText } from '../lib/xml.ts';
import { digestInputs } from './generator.ts';
import {
  feedId,
  feedSummary,
  jsonFeed,
  linkTo,
  type ListedBundle,
  maxListed,
  outputCountText,
  type RootListing,
} from './json-feed.ts';

/*
 * Renders the files of a root index: a page, a JSON feed and an Atom feed.
 */

/** Increment this whenever you change the code in a way that changes the content. */
export const rootIndexVersion = 7;

interface RootFile {
  path: RelativePath;
  kind: string;
  contentType: string;
  /** A digest of everything the content depends on. */
  inputs: Digest;
  text: string;
}

const templates = new URL('../../../templates/', import.meta.url);
let source: Promise<Source> | undefined;

/** The templates and styles of the files. */
interface Source {
  page: string;
  atom: string;
  style: string;
}

async function readSource(): Promise<Source> {
  const [page = '', atom = '', ...styles] = await Promise.all(
    [
      'pages/root-index.ejs',
      'pages/root-feed.ejs',
      'styles/tokens.css',
      'styles/base.css',
      'pages/index.css',
      'pages/root-index.css',
    ].map((name) => readFile(new URL(name, templates), 'utf8')),
  );
  return { page, atom, style: styles.join('') };
}

/** Returns the page and the feeds with the latest bundles below a root. */
export async function rootIndexFiles(listing: RootListing): Promise<RootFile[]> {
  source ??= readSource();
  const { page, atom, style } = await source;
  const styleHash = createHash('sha256').update(style).digest('base64');
  const bundles = listing.bundles.map(rowOf);
  const view = { title: listing.title, bundles, ...headOf(bundles), style, styleHash };
  const html = ejs.render(page, view, { strict: true, localsName: 'page' });
  const feed = ejs.render(atom, atomView(listing), { strict: true, localsName: 'feed' });
  const file = (path: string, kind: string, contentType: string, text: string): RootFile => ({
    path: path as RelativePath,
    kind,
    contentType,
    text,
    inputs: digestInputs(text),
  });
  return [
    file('feed.json', 'feed', 'application/feed+json', jsonFeed(listing)),
    file('feed.xml', 'feed', 'application/atom+xml; charset=utf-8', feed),
    file('index.html', 'index', 'text/html; charset=utf-8', html),
  ];
}

/** With more bundles, the page also lists their names in alphabetical order. The page has no scripts. */
const maxWithoutNames = 20;

function headOf(bundles: readonly BundleRow[]): { heading: string; names: BundleRow[] } {
  const isCut = bundles.length === maxListed;
  return {
    heading: isCut
      ? `The newest ${maxListed} bundles`
      : `${bundles.length} ${bundles.length === 1 ? 'bundle' : 'bundles, newest first'}`,
    names:
      bundles.length > maxWithoutNames ? [...bundles].sort((a, b) => compareCodeUnits(a.path, b.path)) : [],
  };
}

function atomView({ title, identity, baseUrl, bundles }: RootListing): Record<string, unknown> {
  return {
    id: feedId(identity),
    title: xmlText(title),
    updated: bundles[0]?.published ?? '1970-01-01T00:00:00Z',
    self: linkTo('feed.xml', baseUrl),
    page: linkTo('index.html', baseUrl),
    entries: bundles.map((bundle) => ({
      id: feedId([...identity, bundle.path]),
      title: xmlText(bundle.path),
      updated: bundle.published,
      published: bundle.created,
      href: linkTo(bundle.page, baseUrl),
      summary: feedSummary(bundle),
    })),
  };
}

interface BundleRow {
  path: string;
  published: string;
  /** The time as people would write it, in two parts: `20 November 2026` and `, 02:04 UTC`. */
  publishedDay: string;
  publishedTime: string;
  href: string;
  sceneMapHref: string | null;
  count: string;
  size: string;
}

function rowOf(bundle: ListedBundle): BundleRow {
  const { path, published, page, sceneMap } = bundle;
  return {
    path,
    published,
    ...localizedTime(published),
    href: linkTo(page, null),
    sceneMapHref: sceneMap === null ? null : linkTo(sceneMap, null),
    count: outputCountText(bundle),
    size: formatSize(bundle.bytes),
  };
}

function localizedTime(time: string): Pick<BundleRow, 'publishedDay' | 'publishedTime'> {
  const verdict = parseInstant(time);
  const text = verdict.ok ? instantForPeople(verdict.value) : time;
  const [day = text] = text.split(',', 1);
  return { publishedDay: day, publishedTime: text.slice(day.length) };
}
