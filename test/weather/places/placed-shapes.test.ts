import t, { type Test } from 'tap';
import { loadSecrets } from '../../../src/core/lib/secrets.ts';
import { feedDocument } from '../../../src/weather/feed/feed-document.ts';
import { createTables } from '../../../src/weather/feed/tables/create-tables.ts';
import { openServer } from '../../../src/weather/feed/tables/open-server.ts';
import { openWeatherDatabases, type QueryOf } from '../../../src/weather/reader.ts';
import { startPostgres } from '../../services/postgres.ts';
import { generator, howMany, share } from '../../support/sampling.ts';
import { primary } from '../primary-database.ts';
import { holds, meets, type Point, type RandomShape, randomShape, wrapped } from '../random-shapes.ts';
import { sharedPglite } from '../shared-pglite.ts';
import { anyAlert, clockAt, type Driver } from '../suite.ts';

/**
 * Alerts across the antimeridian and around the poles, from a document through the tables to the answers for
 * a point and for a box. An oracle without an index determines the correct alerts.
 */

const all = 10_000;
/** The maximum of one answer. */
const shapesPerPoll = 500;
const questionsPerPoll = 60;

async function placedShapes(t: Test, driver: Driver): Promise<void> {
  const count = howMany(all, shapesPerPoll);
  const random = generator('placed shapes');
  const target = await driver.openTarget();
  await createTables(target);
  let [answered, found, different] = [0, 0, 0];
  for (let from = 0; from < count; from += shapesPerPoll) {
    const shapes = Array.from({ length: shapesPerPoll }, (_, index) => ({
      id: `shape-${from + index}`,
      ...randomShape(random),
    }));
    const at = new Date(Date.UTC(2026, 0, 20, 18, from / shapesPerPoll)).toISOString();
    const text = JSON.stringify({ features: shapes.map(alertOf), updated: at });
    const writer = await driver.openTarget();
    const fed = await feedDocument(writer, { place: 'shapes', name: 'a.json', text, receivedAt: null });
    t.match(fed, { outcome: 'loaded', leftOut: { length: 0 } });
    const reader = await driver.openReader(clockAt(at));
    for (let question = 0; question < questionsPerPoll; question += 1) {
      const { query, isRight } = questionAbout(shapes, random);
      const { data } = await reader.alerts({ ...anyAlert, ...query, limit: shapesPerPoll });
      const expected = shapes.filter(isRight).map(({ id }) => id);
      answered += 1;
      found += expected.length;
      const ids = (data?.alerts ?? []).map(({ id }) => id);
      if (JSON.stringify(ids.sort()) === JSON.stringify(expected.sort())) continue;
      different += 1;
      t.same(ids, expected, JSON.stringify(query));
    }
    await reader.close();
    if (writer !== target) await writer.close();
  }
  await target.close();
  t.equal(different, 0, `${share(count, all)} shapes, ${answered} answers, ${found} alerts: no difference`);
  t.ok(found > answered, 'most answers have alerts');
}

function alertOf({ id, geometry }: RandomShape & { id: string }): object {
  const times = { sent: '2026-01-20T17:00:00Z', expires: '2026-01-20T23:00:00Z' };
  const words = { event: 'Tornado Warning', areaDesc: id, status: 'Actual', messageType: 'Alert' };
  const grades = { severity: 'Severe', certainty: 'Likely', urgency: 'Expected' };
  return { geometry, properties: { id, ...times, ...words, ...grades } };
}

type Query = Pick<QueryOf<'alerts'>, 'point' | 'bbox'>;

/** A query for a point in or near a shape, or for a box with its corner there. */
function questionAbout(
  shapes: readonly RandomShape[],
  random: () => number,
): { query: Query; isRight: (shape: RandomShape) => boolean } {
  const [longitude, latitude]: Point = shapes[Math.floor(random() * shapes.length)]!.near();
  if (random() < 0.5)
    return {
      query: { point: { longitude, latitude } },
      isRight: ({ rings }) => holds(rings, [longitude, latitude]),
    };
  const [width, height] = [random() * 20, random() * 10];
  const north = Math.min(89.9, latitude + height);
  const bbox = { west: longitude, south: latitude, east: wrapped(longitude + width), north };
  return { query: { bbox }, isRight: ({ rings }) => meets(rings, bbox) };
}

t.test('alerts are found at the same places as by an oracle: embedded database', async (t) => {
  const shared = await sharedPglite();
  t.teardown(() => shared.close());
  await placedShapes(t, shared);
});

t.test('alerts are found at the same places as by an oracle: PostgreSQL', async (t) => {
  const server = await startPostgres();
  t.teardown(() => server.remove());
  const env = { WEATHER_URL: server.url('weather_reader') };
  const secrets = await loadSecrets({ directory: null, env });
  await placedShapes(t, {
    openTarget: () => openServer(server.url()),
    openReader: (clock) => openWeatherDatabases({ databases: [primary], secrets, clock }),
  });
});
