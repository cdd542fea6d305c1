import type { WritableDatabase } from '../src/weather/feed/tables/upsert.ts';

export const stations = 2000;

/** Adds stations from coast to coast. They are called `K0001` and so on. */
export async function fillStations(target: WritableDatabase): Promise<void> {
  await target.run(
    `insert into stations select 'K' || lpad(n::text, 4, '0'), 'Station ' || n, 25 + (n % 200) / 10.0, -120 + (n / 10) / 4.0, 10, 'America/New_York'
     from generate_series(1, ${stations}) n;`,
  );
}

/** Adds observations, starting with the newest. All stations take turns, every five minutes. */
export async function fillObservations(target: WritableDatabase, rows: number, from = 0): Promise<void> {
  const key = `'K' || lpad((1 + n % ${stations})::text, 4, '0'), date_trunc('minute', now()) - make_interval(mins => 5 * (n / ${stations}))`;
  await target.run(
    `insert into observations (station_id, observed_at, received_at, text_description, raw_message, temperature_c, dewpoint_c,
       relative_humidity_pct, wind_direction_deg, wind_speed_kmh, altimeter_pa, visibility_m, qc)
     select ${key}, now(), 'Mostly Cloudy', 'KNYC 201751Z AUTO 00000KT 10SM BKN030 20/10 A2992', 20.06, 10, 52.7, 230, 15.2, 101320, 16093.44,
       '{"temperature_c": "V", "dewpoint_c": "V", "wind_speed_kmh": "S"}' from generate_series(${from}, ${from + rows - 1}) n;
     analyze observations;`,
  );
  if (from > 0) return;
  // Only the newest observations get clouds and weather, because the queries read no others.
  await target.run(
    `insert into observation_clouds (station_id, observed_at, position, amount, base_m)
     select station_id, max(observed_at), 1, 'BKN', 914.4 from observations group by station_id;
     insert into observation_weather (station_id, observed_at, position, intensity, phenomenon, raw)
     select station_id, max(observed_at), 1, 'light', 'rain', '-RA' from observations group by station_id;
     analyze observation_clouds, observation_weather;`,
  );
}

/** Replaces all alerts with this many new ones. Each has a polygon with 24 corners in the contiguous US. */
export async function fillAlerts(target: WritableDatabase, alerts: number): Promise<void> {
  await target.run(
    `truncate alerts, alert_runs cascade;
     insert into alerts (alert_id, sent_at, effective_at, expires_at, status, message_type, category, severity, certainty, urgency, event, area_desc, geometry)
     select 'urn:bench:' || n, now(), now(), now() + interval '30 days', 'Actual', 'Alert', 'Met', 'Severe', 'Likely', 'Expected',
       'Flood Warning', 'Somewhere', jsonb_build_object('type', 'Polygon', 'coordinates', jsonb_build_array((
         select jsonb_agg(jsonb_build_array(round((-124 + (n * 7919::bigint % 57000) / 1000.0 + 0.3 * cos(c * pi() / 12))::numeric, 4),
           round((25 + (n * 104729::bigint % 24000) / 1000.0 + 0.3 * sin(c * pi() / 12))::numeric, 4)) order by c)
         from generate_series(0, 24) c)))
     from generate_series(1, ${alerts}) n;
     insert into alert_areas (alert_id, ugc) select alert_id, 'NYZ072' from alerts;
     insert into alert_runs (fetched_at) values (now());
     insert into alert_run_members select (select max(run_id) from alert_runs), alert_id from alerts;
     analyze alerts, alert_areas, alert_runs, alert_run_members;`,
  );
}
