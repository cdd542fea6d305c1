import type { Clock } from '../../core/lib/clock.ts';
import type { ZoneKey } from '../places/zone-key.ts';
import { ByteCache } from '../api/byte-cache.ts';
import type { WeatherService } from '../api/service.ts';
import { outlinePath } from './projection.ts';

/** The shapes of zones on the map, by their keys, with points `least` pixels apart. */
export type ZoneShapes = (keys: readonly ZoneKey[], least: number) => Promise<ReadonlyMap<ZoneKey, string>>;

/** They are revised twice a year. */
const keptMs = 60 * 60_000;
const most = { entries: 20_000, bytes: 16 * 1024 * 1024 };
/** Outlines are large: what is read is drawn, and forgotten, before the next are read. */
const atOnce = 50;

export function openZoneShapes(weather: Pick<WeatherService, 'zoneOutlines'>, clock: Clock): ZoneShapes {
  const known = new ByteCache<string>(most);
  return async (keys, least) => {
    const shapes = new Map<ZoneKey, string>();
    const now = clock.monotonic();
    const wanted: ZoneKey[] = [];
    for (const key of new Set(keys)) {
      const shape = known.get(`${key} ${least}`, now);
      if (shape === undefined) wanted.push(key);
      else shapes.set(key, shape);
    }
    for (let from = 0; from < wanted.length; from += atOnce) {
      const asked = wanted.slice(from, from + atOnce);
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
