import {
  choice,
  identifier,
  onlyWith,
  type Parameter,
  type Rule,
  wholeNumber,
  words,
} from '../../core/lib/parameters.ts';
import { instant } from '../values.ts';
import { type Box, isInUnitedStates, type Position } from './position.ts';

/** Query parameters that several families have in common. */

export const stationPattern = /^[A-Z0-9]{3,8}$/;

export const unitsParameter = choice(['si', 'us'], 'si', {
  description: '`si`: degC, km/h, Pa, m, mm. `us`: degF, mph, inHg, mi, ft, in.',
});

/** null for all offices. */
export const officeParameter = identifier(
  /^[A-Z]{3}$/,
  'the three letters of a forecast office, such as OKX',
  { description: 'A forecast office. Without it: the newest of any.', example: 'OKX' },
);

/** Checks that `start` is before `end`, and that the range is no longer than `maxMs` milliseconds. */
export function rangeRule(maxMs: number): Rule {
  const hours = maxMs / (60 * 60_000);
  const most = hours > 500 ? `${hours / 24} days` : `${hours} hours`;
  return (_given, { start, end }) => {
    if (!(start instanceof Date) || !(end instanceof Date)) return null;
    const latest = instant(new Date(start.getTime() + maxMs));
    if (end <= start)
      return { name: 'end', message: `must come after "start" (${instant(start)}), such as ${latest}` };
    return end.getTime() - start.getTime() <= maxMs
      ? null
      : {
          name: 'end',
          message: `may be up to ${most} after "start": ask for less at once, such as ${latest}`,
        };
  };
}

/** The query parameters for searching places. */

const degrees = String.raw`[-+]?\d{1,3}(\.\d{1,15})?`;
const pair = new RegExp(`^${degrees},${degrees}$`);
const quartet = new RegExp(`^${degrees}(,${degrees}){3}$`);
const example = '40.78,-73.97';

/**
 * Creates a parameter for a point, `lat,lon`. The value is null if it is absent. A point that would be in the
 * United States with latitude and longitude swapped is rejected as a probable mistake.
 */
export function pointParameter(description: string): Parameter<Position | null> {
  return {
    description,
    example,
    schema: { type: 'string', pattern: pair.source },
    absent: null,
    expected: `latitude (-90 to 90) and longitude (-180 to 180) in degrees with a comma between, such as ${example}`,
    parse: (text) => {
      const position = positionOf(text);
      return position === null || !isOnEarth(position) || isSwapped(position) ? undefined : position;
    },
    hint: (text) => {
      const position = positionOf(text);
      if (position === null || !isSwapped(position)) return null;
      const { latitude, longitude } = position;
      return `latitude and longitude look swapped: ${longitude},${latitude} is in the United States`;
    },
  };
}

/**
 * Creates a parameter for a box, `west,south,east,north` as in GeoJSON. The value is null if it is absent. If
 * west is greater than east, the box crosses the 180° meridian.
 */
export function boxParameter(description: string): Parameter<Box | null> {
  return {
    description,
    example: '-74.3,40.4,-73.6,41',
    schema: { type: 'string', pattern: quartet.source },
    absent: null,
    expected:
      'west, south, east and north in degrees with commas between, the south not above the north, such as -74.3,40.4,-73.6,41',
    parse: (text) => {
      const box = boxOf(text);
      return box === null || !isBox(box) || isSwapped(cornerOf(box)) ? undefined : box;
    },
    hint: (text) => {
      const box = boxOf(text);
      if (box === null) return null;
      if (isSwapped(cornerOf(box)))
        return 'longitudes come first: with its numbers swapped this is in the United States';
      return box.south > box.north ? `its south (${box.south}) lies above its north (${box.north})` : null;
    },
  };
}

export const radiusParameter = wholeNumber(1, 500, 50, {
  description: 'Maximum distance from `point` to the place, in kilometers.',
});
export const radiusRule: Rule = onlyWith('radius', 'point');

export const stateParameter = identifier(/^[A-Z]{2}$/, 'two letters of a state, such as NY', {
  description: 'Only places of this state or territory.',
  example: 'NY',
});

export const searchParameter = words(100, {
  description: 'Only places whose identifier or name has all of these words, or begins of them, in any case.',
  example: 'central park',
});

function positionOf(text: string): Position | null {
  const compact = compacted(text);
  if (!pair.test(compact)) return null;
  const [latitude = NaN, longitude = NaN] = compact.split(',').map(Number);
  return { latitude, longitude };
}

function boxOf(text: string): Box | null {
  const compact = compacted(text);
  if (!quartet.test(compact)) return null;
  const [west = NaN, south = NaN, east = NaN, north = NaN] = compact.split(',').map(Number);
  return { west, south, east, north };
}

/**
 * Removes spaces around commas and at both ends. In a URL, a plus sign that was not encoded is a space, too.
 */
function compacted(text: string): string {
  return text.trim().replaceAll(/ *, */g, ',');
}

function isOnEarth({ latitude, longitude }: Position): boolean {
  return Math.abs(latitude) <= 90 && Math.abs(longitude) <= 180;
}

function isBox({ west, south, east, north }: Box): boolean {
  const corners = [
    { latitude: south, longitude: west },
    { latitude: north, longitude: east },
  ];
  return corners.every(isOnEarth) && south <= north;
}

function cornerOf({ west, south }: Box): Position {
  return { latitude: south, longitude: west };
}

function isSwapped(position: Position): boolean {
  const swapped = { latitude: position.longitude, longitude: position.latitude };
  return isInUnitedStates(swapped) && !isInUnitedStates(position);
}
