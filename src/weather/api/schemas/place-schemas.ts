import type {
  LocationsData,
  OfficesData,
  PlaceData,
  StationsData,
} from '../../records/places.ts';
import type { PlaceUnits } from '../../quantity-units.ts';
import type { JsonSchema } from '../../../api/http/route.ts';
import {
  count,
  degreesEast,
  degreesNorth,
  instantOf,
  listOf,
  orNull,
  quantity,
  record,
  text,
  textOrNull,
  timeZone,
  unit,
} from './fields.ts';

const place = (newest: string): JsonSchema =>
  record<PlaceData>({
    id: text('Identifier.', 'KNYC'),
    name: textOrNull('Name.', 'New York City, Central Park'),
    latitude: { ...degreesNorth, type: 'number' },
    longitude: { ...degreesEast, type: 'number' },
    elevation: quantity('Above sea level', 'm', 'ft'),
    state: textOrNull('State or territory, in two letters.', 'NY'),
    timeZone: orNull(timeZone),
    distance: quantity('Great-circle distance from `near`', 'km', 'mi'),
    bearing: quantity('From `near`, clockwise from north', 'deg'),
    newestAt: orNull(instantOf(newest)),
    newestAge: { description: 'How long ago that was, in min.', type: ['integer', 'null'], minimum: 0 },
  });
const total = count('All that match, of which the list holds the first `limit`.');
const units = record<PlaceUnits>(
  { distance: unit('km', 'mi'), bearing: unit('deg'), elevation: unit('m', 'ft'), age: unit('min') },
  'The unit of each quantity.',
);
const order = 'The nearest first where `near` is given, else by identifier.';

export const stations = record<StationsData>({
  total,
  stations: listOf(place('When the newest observation was made'), order),
  units,
});
export const locations = record<LocationsData>({
  total,
  locations: listOf(place('When the newest forecast was generated'), order),
  units,
});
export const offices = record<OfficesData>({
  total,
  offices: listOf(place('When the newest discussion was issued'), order),
  units,
});
