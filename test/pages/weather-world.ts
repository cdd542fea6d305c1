import { alertRows, alertsWith, badAlerts } from './weather-alerts.ts';
import { aleutians, forecastRows, mississippi, newYork, northCountry, text } from './weather-forecasts.ts';
import { high, outlookRows } from './weather-outlooks.ts';
import { outline } from './weather-shapes.ts';

/*
 * A country of stations with the weather of one afternoon, as a feeder would store it: temperatures that
 * decrease to the north, alerts by polygon and by zone, an outlook and forecasts. A hostile world is the
 * same, but its texts would be markup if they were not escaped.
 */

export const worldNow = '2026-01-20T18:20:00Z';
export const hostile = `<script>alert('x')</script><img src=x onerror=alert(1)>"'&lt;`;

const southeastNewYork = outline(
  '-75.3 41.9, -74.75 41.45, -74.05 40.95, -74.28 40.48, -73.5 40.55, -72.5 40.75, -71.8 41.05, ' +
    '-72.6 41.05, -73.65 40.95, -73.5 41.3, -73.5 42.2, -74.7 42.45',
);

const observation = `station_id, observed_at, received_at, text_description, raw_message, temperature_c, dewpoint_c,
  relative_humidity_pct, wind_direction_deg, wind_speed_kmh, wind_gust_kmh, altimeter_pa, visibility_m`;

const sections: readonly [heading: string, qualifier: string | null, body: string][] = [
  ['SYNOPSIS', null, 'Low pressure passes to the south this evening. High pressure builds\nin on Wednesday.'],
  [
    'NEAR TERM',
    'THROUGH TONIGHT',
    'Snow begins around 4 PM and becomes heavy at times near the coast.\nTemperatures fall into the 20s.\n\nSnow ends from west to east after midnight, with four to eight\ninches in the city.',
  ],
  [
    'LONG TERM',
    'THURSDAY THROUGH MONDAY',
    'Dry on Thursday and Friday. Another low may bring snow on Saturday.',
  ],
];

/** @param odd text that is added to each section */
function discussionRows(odd: string): string {
  const parts = sections.map(([heading, qualifier, body], index) => ({
    ...{ heading, qualifier },
    body: `${body} ${odd}`,
    index,
  }));
  const whole = parts.map(({ heading, body }) => `.${heading}...\n${body}`).join('\n\n');
  return `insert into forecast_discussions (product_id, office, issued_at, raw_text)
    values ('afd', 'OKX', '2026-01-20T17:30Z', ${text(whole)});
  ${parts
    .map(
      ({ heading, qualifier, body, index }) =>
        `insert into forecast_discussion_sections (product_id, position, heading, qualifier, body)
         values ('afd', ${index + 1}, '${heading}', ${qualifier === null ? 'null' : text(qualifier)}, ${text(body)});`,
    )
    .join('\n')}`;
}

/**
 * SQL that fills the tables of the contract.
 *
 * @param odd text that is added to the texts of the world
 */
const worldWith = (odd: string): string => `
  insert into stations
    select 'K' || chr(65 + (n / 26) % 26) || chr(65 + n % 26) || 'X', 'Field number ' || n, 26.5 + (n % 11) * 2.1, -122 + (n / 11) * 2.4,
      100 + n, 'America/Chicago', case when n % 11 = 2 then 'TX' else 'KS' end from generate_series(0, 230) n;
  -- Fields in the sea, in Mexico or in Canada are removed.
  delete from stations where latitude_deg < 34 and (longitude_deg < -115 or longitude_deg > -82 or latitude_deg < 29);
  delete from stations where latitude_deg < 42 and longitude_deg > -77 or latitude_deg > 42 and longitude_deg > -84;
  delete from stations where latitude_deg < 32 and longitude_deg < -105 or latitude_deg < 38 and longitude_deg < -121
    or latitude_deg > 45 and longitude_deg > -90;
  insert into stations values
    ('KNYC', 'New York City, Central Park', 40.78, -73.97, 27, 'America/New_York', 'NY'),
    ('KALB', ${text(odd === '' ? 'Albany' : odd)}, 42.75, -73.80, 90, 'America/New_York', 'NY'),
    ('KBUF', 'Buffalo', 42.94, -78.73, 218, 'America/New_York', 'NY'),
    ('KSYR', 'Syracuse', 43.11, -76.10, 125, 'America/New_York', 'NY'),
    ('KRME', 'Rome', 43.23, -75.41, 154, 'America/New_York', 'NY'),
    ('KART', 'Watertown', 43.99, -76.02, 99, 'America/New_York', 'NY'),
    ('KOLD', 'Long Silent Field', 43.6, -75.6, 125, 'America/New_York', 'NY'),
    ('PANC', 'Anchorage', 61.17, -150.03, 40, 'America/Anchorage', 'AK'),
    ('PHNL', 'Honolulu', 21.33, -157.93, 4, 'Pacific/Honolulu', 'HI'),
    ('PGUM', 'Guam', 13.48, 144.8, 77, 'Pacific/Guam', 'GU');
  insert into observations (${observation})
    select station_id, case station_id when 'KOLD' then '2026-01-17T18:00Z' when 'KBUF' then '2026-01-20T17:54Z'
      when 'KSYR' then '2026-01-20T17:54Z' else '2026-01-20T17:51Z' end::timestamptz,
      '2026-01-20T18:00Z', case when station_id in ('KBUF', 'KRME') then 'Light Snow' when station_id in ('KSYR', 'KART') then 'Snow' else 'Mostly Cloudy' end, 'METAR',
      45 - latitude_deg * 1.15 + noise, 38 - latitude_deg * 1.15 + noise, 71, 230, 22, 41, 101320, 16093 from stations,
      -- Nearby fields differ by some degrees.
      lateral (select case when stations.name like 'Field%' then 3 * sin(longitude_deg * 7) + 2 * cos(latitude_deg * 5) else 0 end) n(noise);
  insert into observation_clouds (station_id, observed_at, position, amount, base_m)
    select station_id, observed_at, 1, 'BKN', 914.4 from observations where station_id = 'KNYC';
  insert into zones (ugc, name, geometry) values ('NYZ072', 'New York', '${southeastNewYork}');
  insert into alert_runs (fetched_at) values ('2026-01-20T18:19Z');
  ${alertRows(alertsWith(odd))}
  ${outlookRows()}
  ${forecastRows(newYork, odd)}
  ${forecastRows(northCountry, odd)}
  ${discussionRows(odd)}
  insert into weather_story_runs (office, fetched_at) values ('OKX', '2026-01-20T17:00Z');
  insert into weather_stories (run_id, position, title, description, starts_at, ends_at)
    select run_id, 1, 'Snow tonight', 'Snow begins around 4 pm and ends after midnight. Four to eight inches are expected. ' || ${text(odd)}, '2026-01-20T12:00Z', '2026-01-21T12:00Z' from weather_story_runs;
`;

export const weatherWorld = worldWith('');
export const hostileWorld = worldWith(hostile);

/**
 * More data of that afternoon: a HIGH risk whose hazards have not arrived, and alerts that are hard to
 * place.
 */
export const badDay = `
  insert into stations values
    ('KMEI', 'Meridian, Mississippi', 32.33, -88.75, 90, 'America/Chicago', 'MS'),
    ('PASY', 'Shemya Island', 52.71, 174.11, 30, 'America/Adak', 'AK'),
    ('PAFA', 'Fairbanks', 64.8, -147.88, 133, 'America/Anchorage', 'AK'),
    ('PAJN', 'Juneau', 58.36, -134.58, 6, 'America/Juneau', 'AK'),
    ('PAOM', 'Nome', 64.51, -165.44, 11, 'America/Nome', 'AK');
  insert into observations (station_id, observed_at, received_at, text_description, raw_message, temperature_c)
    select id, '2026-01-20T17:53Z', '2026-01-20T18:00Z', sky, 'METAR', celsius
    from (values ('PAFA', 'Clear', -29), ('PAJN', 'Light Snow', -3), ('PAOM', 'Mostly Cloudy', -16)) v(id, sky, celsius);
  insert into observations (${observation}, wind_chill_c)
    select station_id, '2026-01-20T17:51Z', '2026-01-20T18:00Z', case when station_id = 'KMEI' then 'Thunderstorm and Rain' else 'Heavy Snow' end,
      null, case when station_id = 'KMEI' then 21 else -4 end, case when station_id = 'KMEI' then 18 else -5 end, 93, 200, 35, 60, 100100, 4000,
      case when station_id = 'KMEI' then null else -12 end from stations where station_id in ('KMEI', 'PASY');
  insert into observation_clouds (station_id, observed_at, position, amount, base_m)
    select station_id, observed_at, 1, 'BKN', 914.4 from observations where station_id in ('KMEI', 'PASY');
  ${forecastRows(mississippi)}
  ${forecastRows(aleutians)}
  ${alertRows(badAlerts, 'bad')}
  delete from outlooks where hazard <> 'categorical' and run_id in (select run_id from outlook_runs where day = 1);
  insert into outlooks (run_id, hazard, label, kind, rank, label_text, stroke, fill, geometry)
    select max(run_id), 'categorical', 'HIGH', 'category', 6, 'High Risk', '#333333', '#EE99EE', '${high}' from outlook_runs where day = 1;
`;
