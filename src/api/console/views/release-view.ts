import { compareCodeUnits } from '../../../core/lib/paths.ts';
import type { ListedPath } from '../../../core/releases/bundle-place.ts';
import type { ComparedFiles, DifferentFile } from '../../../workers/threads/inspection-request.ts';
import { ageText, type Mark, type Moment, momentOf, plural, shortMoment, sizeText } from '../record-text.ts';
import type { ChangeLine } from './run-words.ts';

export interface ReleaseRow {
  id: string;
  /** What sets it apart, such as `current` or `incomplete`. */
  badges: Pick<Mark, 'label' | 'tone'>[];
  /** A sentence about it; null if its badges say everything. */
  note: string | null;
  /** Whether its catalog can be read. */
  isReadable: boolean;
  isCurrent: boolean;
  /** Such as `11 files, 16.6 KiB`; `outputs` is only the number, or null if it is unreadable. */
  files: string;
  outputs: number | null;
  /** How its size differs from `before`, such as `+1 file, −2 KiB`; null if it does not. */
  growth: string | null;
  bundle: string;
  /** Its bundle and the time at which that was made, because versions of a bundle have the same name. */
  name: string;
  /** The time at which its bundle was made; null if its catalog does not say. */
  made: (Moment & { short: string }) | null;
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
  return ordered.map((one, index) => {
    const before = beforeOf(one, ordered, index);
    const made = timeOf(one.bundle?.created ?? null);
    const bundle = bundleName(one);
    return {
      id: one.id,
      ...standingOf(one),
      isReadable: isReadable(one),
      isCurrent: one.isCurrent,
      files:
        one.outputs === null ? 'unreadable' : `${plural(one.outputs, 'file')}, ${sizeText(one.bytes ?? 0)}`,
      outputs: one.outputs,
      growth: before === null ? null : growthOf(before, one),
      ...{ bundle, made },
      name: made === null || bundle === one.id ? bundle : `${bundle} of ${made.short} UTC`,
      active:
        one.activatedAt === null
          ? null
          : {
              ...momentOf(one.activatedAt),
              age: ageText(one.activatedAt, now),
              short: shortMoment(one.activatedAt),
            },
      before: before === null ? null : { id: before.id, bundle: bundleName(before) },
      verb: verbFor(one),
    };
  });
}

/** Returns the time of a bundle. Catalogs are untrusted, so it could be any text. */
function timeOf(iso: string | null): ReleaseRow['made'] {
  if (iso === null || Number.isNaN(Date.parse(iso))) return null;
  const utc = new Date(iso).toISOString();
  return { ...momentOf(utc), short: shortMoment(utc) };
}

function growthOf(before: Listed, after: Listed): string | null {
  const files = (after.outputs ?? 0) - (before.outputs ?? 0);
  const bytes = (after.bytes ?? 0) - (before.bytes ?? 0);
  const signed = (value: number, text: string): string[] =>
    value === 0 ? [] : [`${value < 0 ? '−' : '+'}${text}`];
  const parts = [
    ...signed(files, plural(Math.abs(files), 'file')),
    ...signed(bytes, sizeText(Math.abs(bytes))),
  ];
  return parts.length === 0 ? null : parts.join(', ');
}

type Listed = ListedPath['releases'][number];

function bundleName({ id, bundle }: Listed): string {
  return bundle === null || bundle.path === '.' ? id : bundle.path;
}

function isReadable({ state, outputs }: Listed): boolean {
  return state !== 'unreadable' && outputs !== null;
}

function beforeOf(one: Listed, ordered: readonly Listed[], index: number): Listed | null {
  if (!isReadable(one)) return null;
  const others = one.activatedAt === null ? ordered : ordered.slice(index + 1);
  return others.find((other) => other.activatedAt !== null && isReadable(other)) ?? null;
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
    one.isLastGood && !one.isCurrent ? { label: 'previous', tone: 'neutral' } : null,
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

/** A run that published a release. */
export interface ReleaseRun {
  href: string;
  /** The token or the event that started the run. */
  starter: string;
  /** The number of files in the bundle that it published. */
  files: number;
  startedAt: string | null;
  finishedAt: string | null;
}

/** Returns what started the run if the run made the release current; null if a later switch did. */
export function activatorOf(run: ReleaseRun | null, { active }: Pick<ReleaseRow, 'active'>): string | null {
  if (run === null || active === null || run.startedAt === null) return null;
  const [at, start] = [active.iso, run.startedAt].map((iso) => Date.parse(iso)) as [number, number];
  const end = run.finishedAt === null ? Infinity : Date.parse(run.finishedAt);
  return at >= start && at <= end ? run.starter : null;
}

/** The differences between two releases. */
export interface DifferenceView {
  /** Such as `1 new, 0 changed, 2 removed, 3 unchanged`. */
  counts: string;
  lines: ChangeLine[];
  omitted: number;
}

export function differenceView({ added, changed, removed, same, omitted }: ComparedFiles): DifferenceView {
  const line =
    (fate: ChangeLine['fate'], word: string) =>
    ({ path, before, after }: DifferentFile): ChangeLine => {
      const sizes = [before, after].flatMap((size) => (size === null ? [] : sizeText(size)));
      const isSame = before === after;
      return { fate, word, path, why: isSame ? `${sizes[0] ?? ''}, as before` : sizes.join(' → ') };
    };
  return {
    counts: [
      ...[`${added.length} new`, `${changed.length} changed`, `${removed.length} removed`],
      ...[`${same} unchanged`, ...(omitted > 0 ? [`and ${omitted} more that are not shown`] : [])],
    ].join(', '),
    lines: [
      ...added.map(line('add', 'new')),
      ...changed.map(line('change', 'changed')),
      ...removed.map(line('remove', 'removed')),
    ],
    omitted,
  };
}

/**
 * Describes the effect of a switch from the first release to the second one, such as `A rollback would change
 * 1 file. 9 files stay the same.`
 *
 * @returns null if not all differences are known
 */
export function effectText(
  { added, changed, removed, same, omitted }: ComparedFiles,
  verb: 'promote' | 'rollback',
): string | null {
  if (omitted > 0) return null;
  const acts = [
    ['change', changed.length],
    ['add', added.length],
    ['remove', removed.length],
  ] as const;
  const parts = acts.flatMap(([act, count]) => (count === 0 ? [] : `${act} ${plural(count, 'file')}`));
  const text =
    parts.length === 0 ? 'change nothing' : [...parts.slice(0, -2), parts.slice(-2).join(' and ')].join(', ');
  const rest = same === 0 ? '' : ` ${plural(same, 'file')} ${same === 1 ? 'stays' : 'stay'} the same.`;
  return `A ${verb === 'rollback' ? 'rollback' : 'promotion'} would ${text}.${rest}`;
}

/** Names the releases that can be compared, each differently. */
export function releaseChoices(rows: readonly ReleaseRow[]): { id: string; label: string }[] {
  const named = rows
    .filter((row) => row.isReadable)
    .map(({ id, bundle, made, isCurrent }) => ({
      id,
      label: `${bundle}${made === null ? '' : ` of ${made.short}`}${isCurrent ? ' (now)' : ''}`,
    }));
  return named.map(({ id, label }) => ({
    id,
    label: named.filter((other) => other.label === label).length > 1 ? `${label}, ${id}` : label,
  }));
}
