/** Outlines of areas in GeoJSON. */

type Corner = readonly [longitude: number, latitude: number];

function geometryOf(corners: readonly Corner[]): string {
  return JSON.stringify({ type: 'Polygon', coordinates: [[...corners, corners[0]]] });
}

function cornersOf(text: string): Corner[] {
  return text.split(', ').map((pair): Corner => {
    const [longitude = 0, latitude = 0] = pair.split(' ').map(Number);
    return [longitude, latitude];
  });
}

/** @param corners longitudes and latitudes, such as `-105 38, -100 38, -100 43` */
export function outline(corners: string): string {
  return geometryOf(cornersOf(corners));
}

/** An outline whose corners are cut off twice, which makes it look round. */
export function round(corners: string): string {
  return geometryOf(cut(cut(cornersOf(corners))));
}

function cut(corners: readonly Corner[]): Corner[] {
  return corners.flatMap(([x, y], index): Corner[] => {
    const [nextX, nextY] = corners[(index + 1) % corners.length] ?? [x, y];
    return [
      [0.75 * x + 0.25 * nextX, 0.75 * y + 0.25 * nextY],
      [0.25 * x + 0.75 * nextX, 0.25 * y + 0.75 * nextY],
    ];
  });
}
