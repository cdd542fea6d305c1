/** A GeoJSON geometry (WGS 84, longitude first); XML and text treat it as one value. */
export type Geometry = Readonly<Record<string, unknown>>;
