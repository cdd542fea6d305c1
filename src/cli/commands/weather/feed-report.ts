import { columns, plural, type Output } from '../../output/output.ts';
import type { Finding } from '../../../core/lib/errors.ts';
import type { Fed } from '../../../weather/feed/feed-document.ts';

/** Collects what became of the documents, and prints it: line by line as text, at the end as JSON. */
export interface FeedReport {
  add(fed: Fed): void;
  /** Prints the end, and returns the exit code: 1 if anything failed or was left out. */
  finish(warnings: readonly Finding[]): number;
}

const outcomes = ['loaded', 'unchanged', 'skipped', 'failed'] as const;

/**
 * `isEndless`: documents are counted and not kept, and those that bring nothing new are not printed but with
 * `verbose`.
 */
export function feedReport(
  output: Output,
  { isEndless, verbose }: { isEndless: boolean; verbose: boolean },
): FeedReport {
  const counts = { loaded: 0, unchanged: 0, skipped: 0, failed: 0, leftOut: 0 };
  const documents: Fed[] = [];
  return {
    add(fed) {
      counts[fed.outcome] += 1;
      counts.leftOut += fed.leftOut.length;
      if (!isEndless) documents.push(fed);
      const isNews = fed.outcome === 'loaded' || fed.outcome === 'failed' || fed.leftOut.length > 0;
      if (!output.isJson && (isNews || !isEndless || verbose)) print(output, fed);
    },
    finish(warnings) {
      if (output.isJson) output.json('weather-feed', { ...counts, documents, warnings });
      else {
        const leftOut = counts.leftOut === 0 ? [] : [`${plural(counts.leftOut, 'item')} left out`];
        output.data([...outcomes.map((outcome) => `${counts[outcome]} ${outcome}`), ...leftOut].join(', '));
      }
      return counts.failed + counts.leftOut > 0 ? 1 : 0;
    },
  };
}

function print({ data, style }: Output, { outcome, place, families, reason, leftOut }: Fed): void {
  const mark = { loaded: style.green, unchanged: style.dim, skipped: style.dim, failed: style.red }[outcome];
  for (const line of columns([[mark(outcome.padEnd(9)), place, reason ?? families.join(', ')]])) data(line);
  for (const item of leftOut) data(`${' '.repeat(11)}${style.yellow('left out')}  ${item}`);
}
