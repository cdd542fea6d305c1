import { compareCodeUnits } from '../../../core/lib/paths.ts';
import { formatRate } from '../../../core/lib/settings/transfer-rate.ts';
import type { ListedPath } from '../../../core/releases/bundle-place.ts';
import type { CatalogPage, CatalogView, OutputLine } from '../../../workers/threads/inspection-request.ts';
import type { DestinationSummary } from '../../pipelines/pipelines-route.ts';
import { ageText, type Mark, type Moment, momentOf, plural, shortMoment, sizeText } from '../record-text.ts';

/** One page of the files at a bundle path, with links to its directories. */
export interface CatalogPageView {
  paths: string[];
  pathsOmitted: number;
  /** Such as `2 bundles`; null without bundles below the root, which may have an index of them. */
  bundleCount: string | null;
  catalog:
    | (Omit<CatalogView, 'outputs' | 'bytes' | 'pages'> & {
        pages: { url: string; label: string }[];
        updated: Moment & { age: string };
        about: string;
        outputs: (OutputLine & { sizeText: string; short: string; updated: Moment })[];
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
  preserve_relative: 'each at its own path',
  fixed: 'only the newest one',
};
const workflows: Record<DestinationSummary['workflow'], string> = {
  additive: 'stay published',
  replacement: 'are removed',
};
const layouts: Record<DestinationSummary['layout'], string> = {
  releases: 'as releases, switched in one step',
  in_place: 'in place, file by file',
};

interface Placement extends Record<'storage' | 'bundles' | 'omitted' | 'publication', string> {
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
  return {
    storage: backends[backend] ?? backend,
    bundles: mappings[mapping],
    omitted: workflows[workflow],
    publication: layouts[layout],
    rate: max_rate === null ? null : `at most ${formatRate(max_rate)}`,
  };
}

const digestPrefix = 'sha256:';
const digestChars = 12;

export function catalogView(
  { paths, pathsOmitted, catalog }: CatalogPage,
  prefix: string,
  now: Date,
): CatalogPageView {
  const count = paths.filter((path) => path !== '.').length + pathsOmitted;
  const named = { paths, pathsOmitted, bundleCount: count === 0 ? null : plural(count, 'bundle') };
  if (catalog === null) return { ...named, catalog: null };
  const { outputs, bytes, pages, ...rest } = catalog;
  return {
    ...named,
    catalog: {
      ...rest,
      updated: { ...momentOf(catalog.updatedAt), age: ageText(catalog.updatedAt, now) },
      about: `${plural(catalog.total, 'file')}, ${sizeText(bytes)}`,
      outputs: outputs.map((one) => ({
        ...one,
        sizeText: sizeText(one.size),
        short: one.digest.replace(digestPrefix, '').slice(0, digestChars),
        updated: momentOf(one.updatedAt),
      })),
      pages: openable(pages).map(({ url, path, kind }) => ({
        url,
        label: kind === 'scene_map_page' ? `Scene map ${path}` : `Open ${path}`,
      })),
      directories: directoriesOf(outputs, prefix),
    },
  };
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

export interface ReleaseRow {
  id: string;
  /** What sets it apart, such as `current` or `incomplete`. */
  badges: Pick<Mark, 'label' | 'tone'>[];
  /** A sentence about it; null if its badges say everything. */
  note: string | null;
  /** Whether its catalog can be read. */
  isReadable: boolean;
  isCurrent: boolean;
  /** Whether a rollback without a chosen release switches to this one. */
  isLastGood: boolean;
  files: string;
  bundle: string;
  active: (Moment & { age: string; short: string }) | null;
  /** The release that was current before, or is current if this one never was, for comparing the two. */
  before: { id: string; bundle: string } | null;
  /** The button that activates this release. null if it is already current or cannot be activated. */
  verb: 'promote' | 'rollback' | null;
}

/** Returns the releases at a bundle path, starting with the most recently activated one. */
export function releaseRows({ releases }: Pick<ListedPath, 'releases'>, now: Date): ReleaseRow[] {
  const ordered = [...releases].sort((a, b) => {
    const [first, second] = [a.activatedAt ?? '', b.activatedAt ?? ''];
    return Number(b.isCurrent) - Number(a.isCurrent) || compareCodeUnits(second, first);
  });
  return ordered.map((one, index) => ({
    id: one.id,
    ...standingOf(one),
    isReadable: isReadable(one),
    isCurrent: one.isCurrent,
    isLastGood: one.isLastGood && !one.isCurrent,
    files:
      one.outputs === null ? 'unreadable' : `${plural(one.outputs, 'file')}, ${sizeText(one.bytes ?? 0)}`,
    bundle: bundleName(one),
    active:
      one.activatedAt === null
        ? null
        : {
            ...momentOf(one.activatedAt),
            age: ageText(one.activatedAt, now),
            short: shortMoment(one.activatedAt),
          },
    before: beforeOf(one, ordered, index),
    verb: verbFor(one),
  }));
}

type Listed = ListedPath['releases'][number];

function bundleName({ id, bundle }: Listed): string {
  return bundle === null || bundle.path === '.' ? id : bundle.path;
}

function isReadable({ state, outputs }: Listed): boolean {
  return state !== 'unreadable' && outputs !== null;
}

function beforeOf(one: Listed, ordered: readonly Listed[], index: number): ReleaseRow['before'] {
  const others = one.activatedAt === null ? ordered : ordered.slice(index + 1);
  const former = others.find((other) => other.activatedAt !== null && isReadable(other));
  if (former === undefined || !isReadable(one)) return null;
  return { id: former.id, bundle: bundleName(former) };
}

const states = {
  writing: { label: 'being written', tone: 'running', note: 'A run may still be writing it.' },
  abandoned: {
    label: 'incomplete',
    tone: 'warning',
    note: 'A run stopped before it was complete. A later run removes it.',
  },
  unreadable: {
    label: 'unreadable',
    tone: 'failure',
    note: 'Its catalog is invalid, or from a newer version of waybill.',
  },
} as const;

/** Describes what sets a release apart from those that are complete and were current once. */
function standingOf(one: Listed): Pick<ReleaseRow, 'badges' | 'note'> {
  const state = one.state === 'complete' ? null : states[one.state];
  const badges: (ReleaseRow['badges'][number] | null)[] = [
    one.isCurrent ? { label: 'current', tone: 'success' } : null,
    one.isLastGood && !one.isCurrent ? { label: 'last good', tone: 'neutral' } : null,
    one.isRolledBack ? { label: 'rolled back', tone: 'warning' } : null,
    one.isBeingRemoved ? { label: 'being removed', tone: 'warning' } : null,
    state,
    ...one.channels.map((name) => ({ label: `channel ${name}`, tone: 'neutral' }) as const),
  ];
  const note = one.isRolledBack ? 'Later runs skip it, until you promote it.' : null;
  return {
    badges: badges.flatMap((badge) => (badge === null ? [] : { label: badge.label, tone: badge.tone })),
    note: state?.note ?? (one.isBeingRemoved ? 'A run is removing its files.' : note),
  };
}

/**
 * Decides whether activating a release counts as a promotion or a rollback. A release that has never been
 * current, or was rolled back, is newer than the current one, so activating it is a promotion.
 */
function verbFor(one: Listed): ReleaseRow['verb'] {
  if (one.isCurrent || one.isBeingRemoved || one.state !== 'complete') return null;
  return one.activatedAt === null || one.isRolledBack ? 'promote' : 'rollback';
}
