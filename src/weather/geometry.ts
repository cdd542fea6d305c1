/** A place on Earth, in degrees (WGS 84). */
export interface Position {
  /** North, from -90 to 90. */
  latitude: number;
  /** East, from -180 to 180. */
  longitude: number;
}

/** What lies between two meridians and two parallels. West of east, or around the antimeridian. */
export interface Box {
  west: number;
  south: number;
  east: number;
  north: number;
}

/** A GeoJSON geometry (WGS 84, longitude first); XML and text treat it as one value. */
export type Geometry = Readonly<Record<string, unknown>>;

/** Null if either is not known. Degrees north and east. */
export function pointGeometry(latitude: number | null, longitude: number | null): Geometry | null {
  return latitude === null || longitude === null
    ? null
    : { type: 'Point', coordinates: [longitude, latitude] };
}
