import { compareCodeUnits } from '../../../core/lib/paths.ts';
import type { VerifyReport } from '../../../core/maintain/verify.ts';
import { ageText, durationText, type Mark, type Moment, momentOf, plural, sizeText } from '../record-text.ts';
import { type ErrorView, errorView } from './error-view.ts';

/** A report about a bundle path, whose own path is relative to `path`. */
export interface VerifiedPath {
  path: string;
  report: VerifyReport;
}

/** The result of reading all published files of a destination. */
interface VerificationView {
  headline: string;
  mark: Pick<Mark, 'tone' | 'symbol'>;
  /** Whether every file is as published. */
  isClean: boolean;
  made: Moment;
  /** The bytes that were read, and how long that took. */
  size: string;
  took: string;
  /** The bundles, newest first. */
  bundles: VerifiedBundle[];
}

interface VerifiedBundle {
  path: string;
  /** The end of the newest run that published it; null if it is not known. */
  published: (Moment & { age: string }) | null;
  mark: Mark;
  isClean: boolean;
  /** The number of verified files, and their noun for narrow screens. */
  count: string;
  noun: string;
  size: string;
  isInterrupted: boolean;
  error: ErrorView | null;
  differences: { problem: string; path: string; text: string }[];
  differencesOmitted: number;
}

const maxDifferences = 200;
const problems = {
  missing: 'missing',
  not_a_file: 'not a file',
  size: 'size differs',
  digest: 'content differs',
} as const;
const marks = {
  clean: { label: 'as published', tone: 'success', symbol: '✓' },
  different: { label: 'differs', tone: 'failure', symbol: '✕' },
  unknown: { label: 'not verified', tone: 'failure', symbol: '✕' },
} as const satisfies Record<string, Mark>;

export function verificationView(
  verified: readonly VerifiedPath[],
  { started, now, published }: { started: Date; now: Date; published: ReadonlyMap<string, string> },
): VerificationView {
  const reports = verified.map(({ report }) => report);
  const files = reports.reduce((sum, one) => sum + one.verified, 0);
  const bytes = reports.reduce((sum, one) => sum + one.bytes, 0);
  const differing = reports.reduce((sum, one) => sum + one.differing.length, 0);
  const failed = reports.filter(({ error }) => error !== null).length;
  const isClean = differing === 0 && failed === 0;
  const what = `${plural(files, 'file')} of ${plural(reports.length, 'bundle')}`;
  const wrong = [
    ...(differing === 0 ? [] : [`${plural(differing, 'file')} differ${differing === 1 ? 's' : ''}`]),
    ...(failed === 0 ? [] : [`${plural(failed, 'bundle')} could not be verified`]),
  ];
  return {
    headline: isClean
      ? `${files === 1 ? '' : 'All '}${what} ${files === 1 ? 'is' : 'are'} as published`
      : wrong.join(', and '),
    mark: isClean ? { tone: 'success', symbol: '✓' } : { tone: 'failure', symbol: '✕' },
    isClean,
    made: momentOf(now.toISOString()),
    ...{ size: sizeText(bytes), took: durationText(now.getTime() - started.getTime()) },
    bundles: verified
      .map((one) => bundleOf(one, published, now))
      .sort((a, b) => compareCodeUnits(b.published?.iso ?? '', a.published?.iso ?? '')),
  };
}

function bundleOf(
  { path, report }: VerifiedPath,
  published: ReadonlyMap<string, string>,
  now: Date,
): VerifiedBundle {
  const { destinationPath: own, verified, bytes, differing, interrupted, error } = report;
  const isClean = error === null && differing.length === 0;
  const whole = path === '.' ? own : own === '.' ? path : `${path}/${own}`;
  const at = published.get(whole);
  return {
    path: whole,
    published: at === undefined ? null : { ...momentOf(at), age: ageText(at, now) },
    mark: isClean ? marks.clean : error === null ? marks.different : marks.unknown,
    isClean,
    count: verified.toLocaleString('en-GB'),
    noun: verified === 1 ? 'file' : 'files',
    size: sizeText(bytes),
    isInterrupted: interrupted,
    error: error === null ? null : errorView(error),
    differences: differing.slice(0, maxDifferences).map((one) => ({
      ...{ problem: problems[one.problem], path: one.path },
      text: `expected ${one.expected}, found ${one.found ?? 'nothing'}`,
    })),
    differencesOmitted: Math.max(0, differing.length - maxDifferences),
  };
}
