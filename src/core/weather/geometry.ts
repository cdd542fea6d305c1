/** A GeoJSON geometry (WGS 84, longitude first); XML and text treat it as one value. */
export type Geometry = Readonly<Record<string, unknown>>;

/** Null if either is not known. Degrees north and east. */
export function pointGeometry(latitude: number | null, longitude: number | null): Geometry | null {
  return latitude === null || longitude === null
    ? null
    : { type: 'Point', coordinates: [longitude, latitude] };
}
