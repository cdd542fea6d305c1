import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Position } from 'geojson';
import { feature } from 'topojson-client';
import type { GeometryCollection, Topology } from 'topojson-specification';

/*
 * Generates the outlines of the states for the weather map. They come from the us-atlas package, which
 * contains public domain data of the Census Bureau. The projection is the one in
 * `src/weather/pages/map-shapes.ts`.
 */

/** Two-letter codes by the number that the Census Bureau uses. */
const codes: Readonly<Record<string, string>> = {
  ...{ '01': 'AL', '02': 'AK', '04': 'AZ', '05': 'AR', '06': 'CA', '08': 'CO', '09': 'CT', '10': 'DE' },
  ...{ '11': 'DC', '12': 'FL', '13': 'GA', '15': 'HI', '16': 'ID', '17': 'IL', '18': 'IN', '19': 'IA' },
  ...{ '20': 'KS', '21': 'KY', '22': 'LA', '23': 'ME', '24': 'MD', '25': 'MA', '26': 'MI', '27': 'MN' },
  ...{ '28': 'MS', '29': 'MO', '30': 'MT', '31': 'NE', '32': 'NV', '33': 'NH', '34': 'NJ', '35': 'NM' },
  ...{ '36': 'NY', '37': 'NC', '38': 'ND', '39': 'OH', '40': 'OK', '41': 'OR', '42': 'PA', '44': 'RI' },
  ...{ '45': 'SC', '46': 'SD', '47': 'TN', '48': 'TX', '49': 'UT', '50': 'VT', '51': 'VA', '53': 'WA' },
  ...{ '54': 'WV', '55': 'WI', '56': 'WY' },
};

/**
 * In pixels of the map. Coordinates are rounded to multiples of `step`, and points are at least `least`
 * apart.
 */
const coarse = { step: 1, least: 1.5 };
const fine = { step: 0.1, least: 0.2 };

type Atlas = Topology<{ states: GeometryCollection<{ name: string }> }>;

/**
 * Returns a JSON document with the code, name, bounding box (left, top, right, bottom), and the coarse and
 * fine outlines of each state.
 */
export function stateOutlines(): string {
  const file = createRequire(import.meta.url).resolve('us-atlas/states-albers-10m.json');
  const atlas = JSON.parse(readFileSync(file, 'utf8')) as Atlas;
  const outlined = feature(atlas, atlas.objects.states).features.map(({ id, properties, geometry }) => {
    const code = codes[String(id)];
    if (code === undefined || (geometry.type !== 'Polygon' && geometry.type !== 'MultiPolygon'))
      throw new Error(`${properties.name} (${String(id)}) is no state that is known here`);
    const rings = geometry.type === 'Polygon' ? geometry.coordinates : geometry.coordinates.flat();
    return {
      code,
      name: properties.name,
      box: boxOf(rings.flat()),
      coarse: pathOf(rings, coarse),
      fine: pathOf(rings, fine),
    };
  });
  return `${JSON.stringify(outlined.sort((a, b) => a.name.localeCompare(b.name)))}\n`;
}

function boxOf(points: readonly Position[]): number[] {
  const [xs, ys] = [points.map(([x = 0]) => x), points.map(([, y = 0]) => y)];
  return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)].map(Math.round);
}

function pathOf(rings: readonly Position[][], { step, least }: typeof coarse): string {
  const rounded = (value: number): number => Number((Math.round(value / step) * step).toFixed(1));
  const parts = rings.map((ring) => {
    const kept: [number, number][] = [];
    for (const [x = 0, y = 0] of ring) {
      const [lastX, lastY] = kept.at(-1) ?? [Infinity, Infinity];
      const point: [number, number] = [rounded(x), rounded(y)];
      if (Math.hypot(point[0] - lastX, point[1] - lastY) >= least) kept.push(point);
    }
    return kept.length < 3 ? '' : `M${kept.map((point) => point.join(',')).join('L')}Z`;
  });
  return parts.join('');
}
