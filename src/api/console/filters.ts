import { dayOf } from './record-text.ts';

const dayMs = 86_400_000;
const periods: readonly [label: string, first: number, last: number][] = [
  ['Today', 0, 0],
  ['Yesterday', 1, 1],
  ['Last 7 days', 6, 0],
];

/** A link to a period of UTC days. */
interface Period {
  label: string;
  href: string;
  isCurrent: boolean;
}

/** Returns links to common periods for a list with `since` and `until`. Keeps the other filters. */
export function periodsOf(path: string, filters: URLSearchParams, now: Date): Period[] {
  return periods.map(([label, first, last]) => {
    const [since, until] = [first, last].map((days) => dayOf(new Date(now.getTime() - days * dayMs)));
    const query = new URLSearchParams(filters);
    query.delete('before');
    query.set('since', since ?? '');
    query.set('until', until ?? '');
    return {
      label,
      href: `${path}?${query.toString()}`,
      isCurrent: filters.get('since') === since && filters.get('until') === until,
    };
  });
}

/** Returns the filters in a URL. Browsers submit every field of a form, even the ones left empty. */
export function filtersOf(url: string): URLSearchParams {
  const { searchParams } = new URL(url, 'http://localhost');
  return new URLSearchParams([...searchParams].filter(([name, value]) => value !== '' && name !== 'done'));
}
