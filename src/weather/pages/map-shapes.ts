import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Clock } from '../../core/lib/clock.ts';
import { ByteCache } from '../api/answer-cache.ts';
import type { WeatherService } from '../api/service.ts';
import type { ZoneKey } from '../places/position.ts';
import { mapSize, outlinePath } from './projection.ts';

/** A state as drawn on the map. */
export interface StateOutline {
  /** Two letters. */
  code: string;
  name: string;
  /** Left, top, right, bottom, in pixels of the map. */
  box: readonly [number, number, number, number];
  /** SVG path data for the map of the country (`coarse`) and of the state (`fine`). */
  coarse: string;
  fine: string;
}

let known: readonly StateOutline[] | undefined;

/** Returns the states on the map, sorted by name. */
export function states(): readonly StateOutline[] {
  known ??= JSON.parse(
    readFileSync(packagedFile('templates/weather-pages/states.json'), 'utf8'),
  ) as readonly StateOutline[];
  return known;
}

/** The visible part of the map. */
export interface MapFrame {
  left: number;
  top: number;
  width: number;
  height: number;
}

export const wholeCountry: MapFrame = { left: 0, top: 0, ...mapSize };

/** Returns the smallest frame around a state that has a margin and the proportions of the whole map. */
export function frameOf({ box: [left, top, right, bottom] }: Pick<StateOutline, 'box'>): MapFrame {
  const room = 1.15;
  const ratio = mapSize.width / mapSize.height;
  const width = Math.max((right - left) * room, (bottom - top) * room * ratio, 12);
  const height = width / ratio;
  const rounded = (value: number): number => Number(value.toFixed(1));
  return {
    left: rounded((left + right - width) / 2),
    top: rounded((top + bottom - height) / 2),
    width: rounded(width),
    height: rounded(height),
  };
}

export function isWithin({ left, top, width, height }: MapFrame, [x, y]: readonly [number, number]): boolean {
  return x >= left && x <= left + width && y >= top && y <= top + height;
}

/** Reports whether two boxes have a point in common. */
export function overlaps(frame: MapFrame, [left, top, right, bottom]: StateOutline['box']): boolean {
  return (
    left <= frame.left + frame.width &&
    right >= frame.left &&
    top <= frame.top + frame.height &&
    bottom >= frame.top
  );
}

/** Returns the path of a packaged file, given its path from the root, for both the build and the sources. */
function packagedFile(file: string): string {
  return fileURLToPath(new URL(`../../../${file}`, import.meta.url));
}

/** Returns the shapes of zones on the map by key, with points at least `least` pixels apart. */
export type ZoneShapes = (keys: readonly ZoneKey[], least: number) => Promise<ReadonlyMap<ZoneKey, string>>;

/** In milliseconds. Outlines are revised twice a year. */
const keptMs = 60 * 60_000;
const limits = { entries: 20_000, bytes: 16 * 1024 * 1024 };
/** Outlines are large, so they are read and converted in batches of this size. */
const batchSize = 50;

export function openZoneShapes(weather: Pick<WeatherService, 'zoneOutlines'>, clock: Clock): ZoneShapes {
  const known = new ByteCache<string>(limits);
  return async (keys, least) => {
    const shapes = new Map<ZoneKey, string>();
    const now = clock.monotonic();
    const wanted: ZoneKey[] = [];
    for (const key of new Set(keys)) {
      const shape = known.get(`${key} ${least}`, now);
      if (shape === undefined) wanted.push(key);
      else shapes.set(key, shape);
    }
    for (let from = 0; from < wanted.length; from += batchSize) {
      const asked = wanted.slice(from, from + batchSize);
      const outlines = await weather.zoneOutlines(asked);
      for (const key of asked) {
        const geometry = outlines.get(key);
        const shape = geometry === undefined ? '' : outlinePath(geometry, least);
        known.set(`${key} ${least}`, shape, { bytes: 2 * shape.length + 64, until: now + keptMs });
        shapes.set(key, shape);
      }
    }
    return shapes;
  };
}
