import { asWaybillError } from '../../core/lib/errors.ts';
import type { WeatherService } from '../api/service.ts';
import type { FamilyName } from '../families.ts';
import type { QueryOf, RecordOf } from '../reader.ts';
import type { ConvectiveOutlookData } from '../records/family-fields.ts';
import { textHelpers } from '../render/text-helpers.ts';
import type { UnknownPart } from '../values.ts';
import { ageOf } from './words.ts';

/**
 * The data for a part of a page, or the reason why it could not be read. The rest of the page can still be
 * shown.
 */
export type Section<T> =
  | { kind: 'read'; data: T | null; stale: boolean; asOf: Date | null; unknown: readonly UnknownPart[] }
  | { kind: 'refused'; why: string };

/** Reads the record for a part of a page. If the database fails, the result says why. */
export async function sectionOf<Name extends FamilyName>(
  weather: WeatherService,
  family: Name,
  query: QueryOf<Name>,
): Promise<Section<RecordOf<Name>>> {
  try {
    return { kind: 'read', ...(await weather.record(family, query)) };
  } catch (error) {
    return { kind: 'refused', why: publicReason(error) };
  }
}

type OutlookQuery = QueryOf<'convectiveOutlooks'>;

/**
 * Reads the outlook for a day: 1 is today, 2 tomorrow. The outlook for a later day is not in effect yet: the
 * outlook of day 2 that is in effect was issued yesterday. So this takes the last one, if it is for that day.
 */
export async function outlookSection(
  weather: WeatherService,
  { day = 1, ...query }: Omit<OutlookQuery, 'select'>,
  { now, timeZone }: { now: Date; timeZone: string | null },
): Promise<Section<ConvectiveOutlookData>> {
  const select = day === 1 ? 'effective' : 'issued';
  const section = await sectionOf(weather, 'convectiveOutlooks', { ...query, day, select });
  const from = dataOf(section)?.validFrom ?? null;
  if (section.kind === 'refused' || from === null || day === 1) return section;
  const dateOf = (instant: string): string => textHelpers.time(instant, timeZone, 'date');
  const wanted = new Date(now.getTime() + (day - 1) * 24 * 60 * 60_000);
  return dateOf(from) === dateOf(wanted.toISOString()) ? section : { ...section, data: null, stale: false };
}

/**
 * Returns a reason that is safe to show on a public page, without details about the database. Rethrows any
 * error that is not from the database.
 */
function publicReason(thrown: unknown): string {
  switch (asWaybillError(thrown).code) {
    case 'database_unavailable':
      return 'The weather database does not answer at present.';
    case 'schema_mismatch':
      return 'The weather database has no such records.';
    default:
      throw thrown;
  }
}

export function dataOf<T>(section: Section<T>): T | null {
  return section.kind === 'read' ? section.data : null;
}

/** A notice about a missing or stale part of a page. */
export interface Notice {
  status: 'warning' | 'failure' | 'neutral';
  text: string;
}

/** Returns a notice if a part of the page could not be read, is missing or is stale. */
export function noticeOf(section: Section<object>, what: string, now: Date): Notice | null {
  if (section.kind === 'refused') return { status: 'failure', text: section.why };
  if (section.data === null) return { status: 'neutral', text: `No ${what} is available for this place.` };
  if (!section.stale || section.asOf === null) return null;
  return { status: 'warning', text: `This ${what} is stale: it is ${ageOf(section.asOf, now)} old.` };
}
