import t from 'tap';
import type { Geometry } from '../../../src/core/weather/geometry.ts';
import { contains, outlineIndex } from '../../../src/core/weather/places/outlines.ts';
import { mapGeometry } from '../../../src/core/weather/render/map-geometry.ts';
import { middleOf, shapeOf } from '../../../src/core/weather/shape.ts';
import { generator, howMany, share } from '../../support/sampling.ts';

type Point = [longitude: number, latitude: number];

/**
 * The oracle: how often an edge crosses the meridian of the point north of it. Every edge takes the shorter
 * way around the Earth. A ring that goes around the Earth holds the pole on its side of the equator. It
 * shares no code with the program, which unrolls longitudes and looks east.
 */
function holds(rings: readonly Point[][], [x, y]: Point): boolean {
  return rings.reduce((isIn, ring) => isIn !== ringHolds(ring, x, y), false);
}

function ringHolds(ring: readonly Point[], x: number, y: number): boolean {
  let isIn = false;
  let around = 0;
  let latitudes = 0;
  for (let index = 1; index < ring.length; index += 1) {
    const [[x0, y0], [x1, y1]] = [ring[index - 1]!, ring[index]!];
    const step = shortest(x1 - x0);
    around += step;
    latitudes += y1;
    const from = shortest(x0 - x);
    const to = from + step;
    // The meridian of the point is at 0, and again a turn away.
    for (const at of [-360, 0, 360])
      if (from > at !== to > at && y0 + ((at - from) / step) * (y1 - y0) > y) isIn = !isIn;
  }
  const holdsNorthPole = Math.abs(around) > 180 && latitudes >= 0;
  return isIn !== holdsNorthPole;
}

function shortest(degrees: number): number {
  return ((((degrees + 180) % 360) + 360) % 360) - 180;
}

const wrapped = (longitude: number): number => shortest(longitude);

t.test('points in polygons agree with an oracle, across the antimeridian and around the poles', async (t) => {
  const all = 10_000;
  const count = howMany(all, 2000);
  const random = generator('shapes on the sphere');
  const between = (least: number, most: number): number => least + random() * (most - least);
  let held = 0;
  let crossing = 0;
  for (let shape = 0; shape < count; shape += 1) {
    const isAroundPole = random() < 0.2;
    const side = random() < 0.5 ? 1 : -1;
    const middle: Point = [random() < 0.5 ? between(160, 200) : between(-180, 180), between(-55, 55)];
    const corners = 4 + Math.floor(random() * 8);
    const size = between(1, 30);
    const star = (scale: number): Point[] => {
      const points = Array.from({ length: corners }, (_, index): Point => {
        const angle = (2 * Math.PI * index) / corners;
        const reach = size * scale * between(0.6, 1);
        return isAroundPole
          ? [wrapped(middle[0] + (360 * index) / corners), side * (90 - reach)]
          : [wrapped(middle[0] + reach * Math.cos(angle)), middle[1] + reach * Math.sin(angle)];
      });
      return [...points, points[0]!];
    };
    const rings = random() < 0.3 && !isAroundPole ? [star(1), star(0.3)] : [star(1)];
    const geometry: Geometry = {
      type: 'Polygon',
      coordinates: random() < 0.5 ? rings : rings.map((r) => r.toReversed()),
    };
    const cut = mapGeometry(geometry);
    if (cut['type'] === 'MultiPolygon') crossing += 1;
    const index = await outlineIndex([{ owners: ['this'], geometry }]);
    for (let probe = 0; probe < 5; probe += 1) {
      const at: Point = isAroundPole
        ? [between(-180, 180), side * between(90 - size, 90)]
        : [wrapped(middle[0] + between(-size, size)), middle[1] + between(-size, size)];
      if (Math.abs(at[1]) > 89.9) continue;
      const position = { longitude: at[0], latitude: at[1] };
      const expected = holds(rings, at);
      held += Number(expected);
      const found = [contains(geometry, position), index.at(position).size > 0, contains(cut, position)];
      if (found.some((one) => one !== expected))
        t.same(found, [expected, expected, expected], `${JSON.stringify(geometry)} at ${at.join(',')}`);
    }
  }
  t.ok(
    held > count && crossing > count / 5,
    `${share(count, all)} shapes: ${held} points held, ${crossing} cut`,
  );
});

t.test('a geometry is known, empty or unknown', (t) => {
  const ring = [
    [0, 0],
    [2, 0],
    [2, 2],
    [0, 0],
  ];
  const polygon = { type: 'Polygon', coordinates: [ring] };
  for (const [geometry, state] of [
    [polygon, 'known'],
    [{ type: 'GeometryCollection', geometries: [polygon, polygon] }, 'known'],
    [{ type: 'GeometryCollection', geometries: [] }, 'empty'],
    [{ type: 'MultiPolygon', coordinates: [] }, 'empty'],
    [{ type: 'Polygon', coordinates: [ring.slice(1)] }, 'unknown'],
    [{ type: 'Point', coordinates: [0, 0] }, 'unknown'],
    [
      {
        type: 'Polygon',
        coordinates: [
          [
            [0, 91],
            [1, 91],
            [1, 90],
            [0, 91],
          ],
        ],
      },
      'unknown',
    ],
    [null, 'unknown'],
  ] as const)
    t.equal(shapeOf(geometry).state, state, JSON.stringify(geometry));
  const across = [
    [179, 0],
    [-179, 0],
    [-179, 2],
    [179, 2],
    [179, 0],
  ];
  t.same(middleOf({ type: 'Polygon', coordinates: [across] }), { latitude: 1, longitude: 180 });
  t.end();
});
