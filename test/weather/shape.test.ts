import t from 'tap';
import { contains, outlineIndex } from '../../src/weather/places/outlines.ts';
import { mapGeometry } from '../../src/weather/render/formats.ts';
import { middleOf, shapeOf } from '../../src/weather/shape.ts';
import { generator, howMany, share } from '../support/sampling.ts';
import { holds, randomShape } from './random-shapes.ts';

t.test('points in polygons match an oracle, across the antimeridian and around the poles', async (t) => {
  const all = 10_000;
  const count = howMany(all, 2000);
  const random = generator('shapes on the sphere');
  let held = 0;
  let crossing = 0;
  for (let shape = 0; shape < count; shape += 1) {
    const { rings, geometry, near } = randomShape(random);
    const cut = mapGeometry(geometry);
    if (cut['type'] === 'MultiPolygon') crossing += 1;
    const index = await outlineIndex([{ owners: ['this'], geometry }]);
    for (let probe = 0; probe < 5; probe += 1) {
      const at = near();
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
    `${share(count, all)} shapes: ${held} points contained, ${crossing} cut`,
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
