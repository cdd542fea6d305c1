import { asWaybillError } from '../../core/lib/errors.ts';
import type { WeatherService } from '../api/service.ts';
import type { FamilyName } from '../families.ts';
import type { QueryOf, RecordOf } from '../reader.ts';
import type { UnknownPart } from '../values.ts';

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
