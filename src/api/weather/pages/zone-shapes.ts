import type { Clock } from '../../../core/clock.ts';
import { ByteCache } from '../byte-cache.ts';
import type { WeatherService } from '../service.ts';
import { outlinePath } from './projection.ts';

/** The shapes of zones on the map, by their UGC codes, with points `least` pixels apart. */
export type ZoneShapes = (ugcs: readonly string[], least: number) => Promise<ReadonlyMap<string, string>>;

/** They are revised twice a year. */
const keptMs = 60 * 60_000;
const most = { entries: 20_000, bytes: 16 * 1024 * 1024 };
/** Outlines are large: what is read is drawn, and forgotten, before the next are read. */
const atOnce = 50;

export function openZoneShapes(weather: Pick<WeatherService, 'zoneOutlines'>, clock: Clock): ZoneShapes {
  const known = new ByteCache<string>(most);
  return async (ugcs, least) => {
    const shapes = new Map<string, string>();
    const now = clock.monotonic();
    const wanted: string[] = [];
    for (const ugc of new Set(ugcs)) {
      const shape = known.get(`${ugc} ${least}`, now);
      if (shape === undefined) wanted.push(ugc);
      else shapes.set(ugc, shape);
    }
    for (let from = 0; from < wanted.length; from += atOnce) {
      const asked = wanted.slice(from, from + atOnce);
      const outlines = await weather.zoneOutlines(asked);
      for (const ugc of asked) {
        const geometry = outlines.get(ugc);
        const shape = geometry === undefined ? '' : outlinePath(geometry, least);
        known.set(`${ugc} ${least}`, shape, { bytes: 2 * shape.length + 64, until: now + keptMs });
        shapes.set(ugc, shape);
      }
    }
    return shapes;
  };
}
