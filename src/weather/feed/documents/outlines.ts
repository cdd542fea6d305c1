import { geometryCheck } from '../../rows/field-checks.ts';
import { isInUnitedStates } from '../../places/position.ts';
import { middleOf } from '../../shape.ts';
import { isMap, type Json, type Note } from './rows.ts';

/**
 * A polygon, multipolygon or collection with closed rings; null if it is none. An outline outside the United
 * States that lies within it with latitude and longitude swapped is swapped, and noted. Otherwise the
 * alert would apply in Antarctica.
 */
export function outlineOf(geometry: unknown, note: Note): Json | null {
  if (!isMap(geometry)) return null;
  const isKnown = isOutline(geometry);
  if (isKnown && isOfUnitedStates(geometry)) return geometry;
  const swapped = swappedOf(geometry);
  if (!isMap(swapped) || !isOutline(swapped) || !isOfUnitedStates(swapped)) return isKnown ? geometry : null;
  note('geometry.coordinates have latitude and longitude swapped');
  return swapped;
}

function isOutline(geometry: Json): boolean {
  return geometry['type'] !== 'Point' && geometryCheck(geometry) === null;
}

function isOfUnitedStates(geometry: Json): boolean {
  const middle = middleOf(geometry);
  return middle !== null && isInUnitedStates(middle);
}

/** The geometry with the numbers of every position swapped. */
function swappedOf(value: unknown): unknown {
  if (Array.isArray(value)) {
    const [first, second, ...rest] = value as unknown[];
    return typeof first === 'number' ? [second, first, ...rest] : value.map(swappedOf);
  }
  if (!isMap(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, swappedOf(inner)]));
}
