import { asWaybillError } from '../../core/lib/errors.ts';
import type { WeatherService } from '../api/service.ts';
import type { FamilyName } from '../families.ts';
import type { QueryOf, RecordOf } from '../reader.ts';
import type { UnknownPart } from '../values.ts';

/**
 * A part of a page: either its record, or the reason why the record cannot be read. Other parts are
 * unaffected.
 */
export type Section<T> =
  | { kind: 'read'; data: T | null; stale: boolean; asOf: Date | null; unknown: readonly UnknownPart[] }
  | { kind: 'refused'; why: string };

/** Reads a family for a part of a page. Never throws a database error. */
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
 * Returns a reason suitable for the page's readers, without details of the database. Throws any other error.
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
