import t from 'tap';
import { contains, type Outline, outlineIndex } from '../../../src/weather/places/outlines.ts';

function square(west: number, south: number, side: number): Outline['geometry'] {
  const [east, north] = [west + side, south + side];
  const corners = [
    [west, south],
    [east, south],
    [east, north],
    [west, north],
    [west, south],
  ];
  return { type: 'Polygon', coordinates: [corners] };
}

t.test('building an index of many outlines yields to the event loop', async (t) => {
  const many = Array.from({ length: 20_000 }, (_, index): Outline => {
    const west = -120 + (index % 200) / 4;
    return { owners: [`alert-${index}`], geometry: square(west, 25 + Math.floor(index / 200) / 5, 0.1) };
  });
  let turns = 0;
  let isMade = false;
  const count = (): void => {
    turns += 1;
    if (!isMade) setImmediate(count);
  };
  setImmediate(count);
  const index = await outlineIndex(many);
  isMade = true;
  t.ok(turns >= 20, `other work had ${turns} turns`);
  t.same(index.at({ latitude: 25.05, longitude: -119.95 }), new Set(['alert-0']));
  t.same(
    index.within({ west: -120, south: 25, east: -119.7, north: 25.05 }),
    new Set(['alert-0', 'alert-1']),
  );
});

t.test('a single geometry contains the same points as an index of it', async (t) => {
  const geometries = [
    square(10, 20, 5),
    square(-180, 60, 30),
    { type: 'MultiPolygon', coordinates: [170, -180].map((west) => square(west, -10, 10)['coordinates']) },
    { type: 'Point', coordinates: [10, 20] },
  ];
  const [longitudes, latitudes] = [
    [-180, -175, -150, 0, 10, 12, 15, 16, 170, 175, 180],
    [-90, -10, -5, 0, 1, 20, 22, 25, 60, 90],
  ];
  let held = 0;
  for (const geometry of geometries) {
    const index = await outlineIndex([{ owners: ['this'], geometry }]);
    for (const longitude of longitudes)
      for (const latitude of latitudes) {
        const isHeld = contains(geometry, { latitude, longitude });
        held += Number(isHeld);
        t.equal(
          isHeld,
          index.at({ latitude, longitude }).size > 0,
          `${JSON.stringify(geometry)} ${latitude},${longitude}`,
        );
      }
  }
  t.ok(held > 20, `${held} are contained`);
});
