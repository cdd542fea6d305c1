import { cell, instantOf, momentOf, type Row, sorted, type Tables, textOf } from './rows.ts';

/** The expected discussions and stories. */

const hour = 3_600_000;

export interface Expected {
  data: object;
  asOf: number;
  /** The metadata next to the data. */
  meta?: object;
}

export function discussion(tables: Tables, office: string | null, now: number): Expected | null {
  const [row] = sorted(
    tables.forecast_discussions.filter(
      (each) => momentOf(each, 'issued_at') <= now + hour && (office === null || each['office'] === office),
    ),
    (each) => momentOf(each, 'issued_at'),
    (each) => String(each['product_id']),
  ).reverse();
  if (row === undefined) return null;
  const sections = sorted(
    tables.forecast_discussion_sections.filter((each) => each['product_id'] === row['product_id']),
    (each) => Number(each['position']),
  );
  const data = {
    id: textOf(row, 'product_id'),
    office: textOf(row, 'office'),
    issuedAt: instantOf(row, 'issued_at'),
    timeZone: 'UTC',
    wmoHeader: textOf(row, 'wmo_header'),
    awipsId: textOf(row, 'awips_id'),
    correction: textOf(row, 'correction'),
    sections: sections.map((each) => ({
      heading: textOf(each, 'heading'),
      qualifier: textOf(each, 'qualifier'),
      body: textOf(each, 'body'),
    })),
    text: textOf(row, 'raw_text'),
  };
  return { data, asOf: momentOf(row, 'issued_at') };
}

export function stories(
  tables: Tables,
  { office, limit, now }: { office: string | null; limit: number; now: number },
): Expected | null {
  const [run] = sorted(
    tables.weather_story_runs.filter(
      (each) => momentOf(each, 'fetched_at') <= now + hour && (office === null || each['office'] === office),
    ),
    (each) => momentOf(each, 'fetched_at'),
    (each) => Number(each['run_id']),
  ).reverse();
  if (run === undefined) return null;
  const of = sorted(
    tables.weather_stories.filter((each) => each['run_id'] === run['run_id']),
    (each) => Number(each['position']),
  );
  const data = {
    office: textOf(run, 'office'),
    fetchedAt: instantOf(run, 'fetched_at'),
    timeZone: 'UTC',
    stories: of.slice(0, limit).map((each) => ({
      title: textOf(each, 'title'),
      description: textOf(each, 'description'),
      altText: textOf(each, 'alt_text'),
      imageUrl: textOf(each, 'image_url'),
      priority: cell(each, 'priority'),
      startsAt: instantOf(each, 'starts_at'),
      endsAt: instantOf(each, 'ends_at'),
      updatedAt: instantOf(each, 'updated_at'),
    })),
  };
  return { data, asOf: momentOf(run, 'fetched_at') };
}

export function outlookDiscussion(tables: Tables, day: number, now: number): Expected | null {
  const ofDay = outlookRuns(tables, day, now);
  const [found] = ofDay.flatMap((run) =>
    sorted(
      tables.outlook_discussions.filter((each) => each['run_id'] === run['run_id']),
      (each) => momentOf(each, 'issued_at'),
      (each) => String(each['product_id']),
    )
      .reverse()
      .map((each) => ({ run, each })),
  );
  if (found === undefined) return null;
  const { run, each } = found;
  const data = {
    ...window(run),
    issuedAt: instantOf(each, 'issued_at'),
    productId: textOf(each, 'product_id'),
    correction: textOf(each, 'correction'),
    headline: textOf(each, 'headline'),
    summary: textOf(each, 'summary'),
    text: textOf(each, 'raw_text'),
  };
  return { data, asOf: momentOf(each, 'issued_at') };
}

/** The texts of a day, latest issue first. */
export function outlookRuns({ outlook_runs: runs }: Tables, day: number, now: number): Row[] {
  return sorted(
    runs.filter((each) => each['day'] === day && momentOf(each, 'issued_at') <= now + hour),
    (each) => momentOf(each, 'issued_at'),
    (each) => Number(each['run_id']),
  ).reverse();
}

export function window(run: Row): object {
  return {
    day: run['day'],
    issuedAt: instantOf(run, 'issued_at'),
    validFrom: instantOf(run, 'valid_from'),
    validUntil: instantOf(run, 'valid_until'),
    timeZone: 'UTC',
  };
}
