import t from 'tap';
import { createTables } from '../../../src/weather/feed/tables/create-tables.ts';
import { sharedPglite } from '../shared-pglite.ts';
import { clockAt } from '../suite.ts';

/** Two neighbors that are the same number in JavaScript. */
const [id, other] = ['9007199254740993', '9007199254740992'];

const rows = `
  insert into alert_runs (run_id, fetched_at) overriding system value
    values (${id}, '2026-02-01T11:59Z'), (${other}, '2026-02-01T11:00Z');
  insert into alerts (alert_id, sent_at, effective_at, expires_at, status, message_type, category, severity, certainty, urgency, event, area_desc)
    select a, '2026-02-01T11:00Z', '2026-02-01T11:00Z', '2026-02-02T00:00Z', 'Actual', 'Alert', 'Met', 'Extreme', 'Likely', 'Expected', 'Tornado Warning', 'here'
    from unnest(array['new', 'old']) a;
  insert into alert_run_members values (${id}, 'new'), (${other}, 'old');
  insert into forecast_runs (run_id, kind, location_id, office, grid_x, grid_y, time_zone, generated_at, updated_at, valid_from, valid_until)
    overriding system value
    values (${id}, 'hourly', 'OKX/33,35', 'OKX', 33, 35, 'America/New_York', '2026-02-01T11:00Z', '2026-02-01T11:00Z', '2026-02-01T12:00Z', '2026-02-02T12:00Z');
  insert into forecast_periods (run_id, number, starts_at, ends_at, is_daytime, temperature_c)
    values (${id}, 1, '2026-02-01T12:00Z', '2026-02-01T13:00Z', true, 21);
  insert into weather_story_runs (run_id, office, fetched_at) overriding system value values (${id}, 'OKX', '2026-02-01T11:00Z');
  insert into weather_stories (run_id, position, title, description, starts_at, ends_at)
    values (${id}, 1, 'Snow', 'Much snow.', '2026-02-01T00:00Z', '2026-02-03T00:00Z');
  insert into outlook_runs (run_id, day, issued_at, valid_from, valid_until) overriding system value
    values (${id}, 1, '2026-02-01T11:00Z', '2026-02-01T12:00Z', '2026-02-02T12:00Z');
  insert into outlooks (run_id, hazard, label, kind, rank, geometry)
    values (${id}, 'categorical', 'HIGH', 'category', 6, '{"type":"Polygon","coordinates":[[[-90,30],[-80,30],[-80,40],[-90,30]]]}');`;

t.test('runs whose ids are larger than JavaScript numbers keep their own rows', async (t) => {
  const database = await sharedPglite();
  t.teardown(() => database.close());
  const target = await database.openTarget();
  await createTables(target);
  await target.run(rows);
  const reader = await database.openReader(clockAt('2026-02-01T12:00:00Z'));
  const { data: alerts } = await reader.alerts({});
  t.same(
    alerts?.alerts.map((alert) => alert.id),
    ['new'],
  );
  const { data: forecast } = await reader.hourlyForecasts({ location: 'OKX/33,35' });
  t.match(forecast?.periods, [{ temperature: 21 }]);
  const { data: stories } = await reader.weatherStories({ office: 'OKX' });
  t.match(stories?.stories, [{ title: 'Snow' }]);
  const { data: outlook } = await reader.convectiveOutlooks({ day: 1 });
  t.match(outlook, { maximumCategory: 'HIGH' });
});
