/*
 * A country of stations with the weather of one afternoon, as a feeder would store it: temperatures that
 * decrease to the north, alerts by polygon and by zone, an outlook and forecasts. A hostile world is the
 * same, but its texts would be markup if they were not escaped.
 */

export const worldNow = '2026-01-20T18:20:00Z';
export const hostile = `<script>alert('x')</script><img src=x onerror=alert(1)>"'&lt;`;

const text = (value: string): string => `'${value.replaceAll("'", "''")}'`;

const polygon = (west: number, south: number, east: number, north: number): string =>
  JSON.stringify({
    type: 'Polygon',
    coordinates: [
      [
        [west, south],
        [east, south],
        [east, north],
        [west, north],
        [west, south],
      ],
    ],
  });

interface Alert {
  event: string;
  severity: string;
  /** If null, the zone determines the place. */
  geometry: string | null;
  zone: string;
  /** The end, in UTC. Default: `2026-01-21T06:00Z`. */
  ends?: string;
  status?: string;
  area?: string;
  what?: string;
  instruction?: string;
  description?: string;
}

/** @param odd text that is added to the texts of the alerts */
function alertsWith(odd: string): readonly Alert[] {
  const alerts: readonly Alert[] = [
    {
      ...{ event: 'Winter Storm Warning', severity: 'Severe', geometry: null, zone: 'NYZ072' },
      ...{ area: 'New York (Manhattan)', what: 'Heavy snow. Four to eight inches are expected' },
      instruction: 'Travel only in an emergency. Keep a flashlight, food, and water in your vehicle.',
    },
    {
      ...{ event: 'Tornado Warning', severity: 'Extreme', zone: 'MSZ001', ends: '2026-01-20T19:00Z' },
      ...{ geometry: polygon(-90, 32, -88, 33.5), area: 'Lauderdale; Kemper; Neshoba' },
      what: 'A confirmed tornado near Meridian, moving east at 35 mph',
      instruction:
        'Take shelter now in a basement or an interior room on the lowest floor of a sturdy building.',
    },
    {
      ...{ event: 'Wind Advisory', severity: 'Moderate', zone: 'COZ001', ends: '2026-01-21T01:00Z' },
      ...{ geometry: polygon(-105, 38, -100, 43), area: 'Nebraska Panhandle; Northeast Plains' },
      what: 'West winds 25 to 35 mph with gusts up to 55 mph',
      instruction: 'Use extra caution when driving. Secure outdoor objects.',
    },
    {
      ...{ event: odd === '' ? 'Dense Fog Advisory' : odd, severity: 'Minor', zone: 'NVZ001' },
      ...{ geometry: polygon(-120, 36, -116, 40), area: 'Central Nevada', ends: '2026-01-20T20:00Z' },
      what: 'Visibility of one quarter mile or less in dense fog',
      instruction: 'Slow down, use your headlights, and keep plenty of distance ahead of you.',
    },
  ];
  return alerts.map((alert) => ({
    ...alert,
    area: joined([alert.area ?? '', odd], '; '),
    description: `* WHAT...${alert.what}.\n\n* WHERE...${joined([alert.area ?? '', odd], ' and ')}.`,
  }));
}

function joined(texts: readonly string[], by: string): string {
  return texts.filter((each) => each !== '').join(by);
}

const senders: Readonly<Record<string, string>> = {
  AK: 'NWS Anchorage AK',
  CO: 'NWS Boulder CO',
  MS: 'NWS Jackson MS',
  NV: 'NWS Elko NV',
  NY: 'NWS Upton NY',
};

/** @param name The name in their identifiers. */
function alertRows(alerts: readonly Alert[], name = 'urn'): string {
  return alerts
    .map(
      (
        {
          event,
          severity,
          geometry,
          zone,
          ends = '2026-01-21T06:00Z',
          status = 'Actual',
          area = '',
          description = `* WHAT...${event}.`,
          instruction = 'Stay at home.',
        },
        index,
      ) => `
      insert into alerts (alert_id, sent_at, effective_at, expires_at, ends_at, status, message_type, category, severity,
        certainty, urgency, event, office, sender_name, headline, description, instruction, area_desc, geometry)
      values ('${name}:${index}', '2026-01-20T17:00Z', '2026-01-20T17:00Z', '${ends}', '${ends}', '${status}', 'Alert',
        'Met', '${severity}', 'Likely', 'Expected', ${text(event)}, 'OKX', ${text(senders[zone.slice(0, 2)] ?? 'NWS')},
        ${text(`${event} until 1 AM`)}, ${text(description)}, ${text(instruction)},
        ${text(area)}, ${geometry === null ? 'null' : text(geometry)});
      insert into alert_areas (alert_id, ugc) values ('${name}:${index}', '${zone}');
      insert into alert_run_members select max(run_id), '${name}:${index}' from alert_runs;`,
    )
    .join('\n');
}

const categories: readonly [label: string, name: string, fill: string, shape: string][] = [
  ['TSTM', 'General Thunderstorms Risk', '#C1E9C1', polygon(-100, 27, -78, 39)],
  ['MRGL', 'Marginal Risk', '#66A366', polygon(-97, 29, -82, 37)],
  ['SLGT', 'Slight Risk', '#FFE066', polygon(-94, 30, -86, 35)],
];

/** The outlooks of today, tomorrow and the day after. The risk ends tomorrow. */
function outlookRows(): string {
  const runs = [
    ['2026-01-20T16:30Z', '2026-01-20T16:30Z', '2026-01-21T12:00Z', categories],
    ['2026-01-20T17:30Z', '2026-01-21T12:00Z', '2026-01-22T12:00Z', categories.slice(0, 2)],
    ['2026-01-20T13:30Z', '2026-01-22T12:00Z', '2026-01-23T12:00Z', categories.slice(0, 1)],
  ] as const;
  const nowhere = '{"type":"MultiPolygon","coordinates":[]}';
  const chances = [
    ['tornado', 'NONE', 0, 'null', nowhere],
    ['wind', '0.05', 1, '5', polygon(-97, 29, -82, 37)],
    ['hail', 'NONE', 0, 'null', nowhere],
  ] as const;
  return runs
    .flatMap(([issued, from, until, shown], index) => [
      `insert into outlook_runs (day, issued_at, valid_from, valid_until)
       values (${index + 1}, '${issued}', '${from}', '${until}');`,
      ...shown.map(
        ([label, name, fill, shape], rank) =>
          `insert into outlooks (run_id, hazard, label, kind, rank, label_text, stroke, fill, geometry)
           select max(run_id), 'categorical', '${label}', 'category', ${rank + 2}, '${name}', '#333333', '${fill}', '${shape}' from outlook_runs;`,
      ),
      ...(index === 2 ? [['any_severe', 'NONE', 0, 'null', nowhere] as const] : chances).map(
        ([hazard, label, rank, percent, shape]) =>
          `insert into outlooks (run_id, hazard, label, kind, rank, probability_pct, geometry)
           select max(run_id), '${hazard}', '${label}', 'probability', ${rank}, ${percent}, '${shape}' from outlook_runs;`,
      ),
    ])
    .join('\n');
}

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
    ('KOLD', 'Long Silent Field', 43.6, -75.6, 125, 'America/New_York', 'NY'),
    ('PANC', 'Anchorage', 61.17, -150.03, 40, 'America/Anchorage', 'AK'),
    ('PHNL', 'Honolulu', 21.33, -157.93, 4, 'Pacific/Honolulu', 'HI'),
    ('PGUM', 'Guam', 13.48, 144.8, 77, 'Pacific/Guam', 'GU');
  insert into observations (${observation})
    select station_id, case station_id when 'KOLD' then '2026-01-17T18:00Z' when 'KBUF' then '2026-01-20T17:54Z'
      when 'KSYR' then '2026-01-20T17:54Z' else '2026-01-20T17:51Z' end::timestamptz,
      '2026-01-20T18:00Z', case station_id when 'KBUF' then 'Light Snow' when 'KSYR' then 'Snow' else 'Mostly Cloudy' end, 'METAR',
      45 - latitude_deg * 1.15 + noise, 38 - latitude_deg * 1.15 + noise, 71, 230, 22, 41, 101320, 16093 from stations,
      -- Nearby fields differ by some degrees.
      lateral (select case when stations.name like 'Field%' then 3 * sin(longitude_deg * 7) + 2 * cos(latitude_deg * 5) else 0 end) n(noise);
  insert into observation_clouds (station_id, observed_at, position, amount, base_m)
    select station_id, observed_at, 1, 'BKN', 914.4 from observations where station_id = 'KNYC';
  insert into zones (ugc, name, geometry) values ('NYZ072', 'New York', '${polygon(-75.2, 40.4, -73.2, 42.4)}');
  insert into alert_runs (fetched_at) values ('2026-01-20T18:19Z');
  ${alertRows(alertsWith(odd))}
  ${outlookRows()}
  insert into locations values ('OKX/33,35', 'Manhattan', 40.77, -73.98, 'America/New_York', 'NY');
  insert into forecast_runs (kind, location_id, office, grid_x, grid_y, time_zone, generated_at, updated_at, valid_from, valid_until)
    select kind, 'OKX/33,35', 'OKX', 33, 35, 'America/New_York', '2026-01-20T18:00Z', '2026-01-20T18:00Z', '2026-01-20T18:00Z', '2026-01-27T18:00Z'
    from unnest(array['hourly', 'narrative']) kind;
  insert into forecast_periods (run_id, number, starts_at, ends_at, is_daytime, temperature_c, dewpoint_c, precipitation_probability_pct,
      wind_speed_max_kmh, wind_direction, short_forecast)
    select run_id, n + 1, '2026-01-20T18:00Z'::timestamptz + n * interval '1 hour', '2026-01-20T19:00Z'::timestamptz + n * interval '1 hour',
      (n + 13) % 24 between 7 and 17, -4 + 4 * sin((n + 4) * 0.2618) + 2 * sin(n * 0.05), -8 + 2 * sin(n * 0.2),
      greatest(0, round(60 * sin(n * 0.07))), round(16 + 8 * sin(n * 0.11) + n % 3), 'NNW',
      case when sin(n * 0.07) > 0.1 then 'Chance Snow' when (n + 13) % 24 between 7 and 17 then 'Mostly Sunny' else 'Partly Cloudy' end
        || ${text(odd === '' ? '' : ` ${odd}`)} from forecast_runs, generate_series(0, 167) n where kind = 'hourly';
  insert into forecast_periods (run_id, number, starts_at, ends_at, name, is_daytime, temperature_c, short_forecast, detailed_forecast)
    select run_id, n + 1, '2026-01-20T18:00Z'::timestamptz + n * interval '12 hours', '2026-01-21T06:00Z'::timestamptz + n * interval '12 hours',
      (array['This Afternoon', 'Tonight', 'Wednesday', 'Wednesday Night', 'Thursday', 'Thursday Night'])[n + 1], n % 2 = 0, 3, 'Snow',
      'Snow, mainly after 4 pm. Cloudy, with a high near 35. North wind around 12 mph, with gusts as high as 25 mph. ' || ${text(odd)}
    from forecast_runs, generate_series(0, 5) n where kind = 'narrative';
  ${discussionRows(odd)}
  insert into weather_story_runs (office, fetched_at) values ('OKX', '2026-01-20T17:00Z');
  insert into weather_stories (run_id, position, title, description, starts_at, ends_at)
    select run_id, 1, 'Snow tonight', 'Snow begins around 4 pm and ends after midnight. Four to eight inches are expected. ' || ${text(odd)}, '2026-01-20T12:00Z', '2026-01-21T12:00Z' from weather_story_runs;
`;

export const weatherWorld = worldWith('');
export const hostileWorld = worldWith(hostile);

const badAlerts: readonly Alert[] = [
  {
    event: 'Flood Watch',
    severity: 'Severe',
    geometry: null,
    zone: 'MSZ099',
    area: 'Lauderdale; Clarke',
    description:
      '* WHAT...Flooding caused by excessive rainfall is possible, with\ntwo to four inches of rain.\n\n* WHERE...Portions of east central Mississippi.\n\n* WHEN...Through late tonight.',
  },
  {
    event: 'Winter Storm Warning',
    severity: 'Severe',
    geometry: polygon(172, 51, -176, 54),
    zone: 'AKZ787',
    area: 'Western Aleutians',
    description:
      '* WHAT...Heavy snow and blowing snow expected, with winds that\ngust as high as 65 mph.\n\n* WHERE...Western Aleutians.\n\n* WHEN...From this afternoon to 9 PM AKST.',
  },
  {
    event: 'Tsunami Warning',
    severity: 'Extreme',
    geometry: polygon(172, 51, -176, 54),
    zone: 'AKZ787',
    status: 'Test',
    area: 'Western Aleutians',
  },
];

/**
 * More data of that afternoon: a HIGH risk whose hazards have not arrived, and alerts that are hard to
 * place.
 */
export const badDay = `
  insert into stations values
    ('KMEI', 'Meridian, Mississippi', 32.33, -88.75, 90, 'America/Chicago', 'MS'),
    ('PASY', 'Shemya Island', 52.71, 174.11, 30, 'America/Adak', 'AK');
  insert into observations (${observation}, wind_chill_c)
    select station_id, '2026-01-20T17:51Z', '2026-01-20T18:00Z', case when station_id = 'KMEI' then 'Thunderstorm and Rain' else 'Heavy Snow' end,
      null, case when station_id = 'KMEI' then 21 else -4 end, case when station_id = 'KMEI' then 18 else -5 end, 93, 200, 35, 60, 100100, 4000,
      case when station_id = 'KMEI' then null else -12 end from stations where station_id in ('KMEI', 'PASY');
  insert into observation_clouds (station_id, observed_at, position, amount, base_m)
    select station_id, observed_at, 1, 'BKN', 914.4 from observations where station_id in ('KMEI', 'PASY');
  ${alertRows(badAlerts, 'bad')}
  delete from outlooks where hazard <> 'categorical' and run_id in (select run_id from outlook_runs where day = 1);
  insert into outlooks (run_id, hazard, label, kind, rank, label_text, stroke, fill, geometry)
    select max(run_id), 'categorical', 'HIGH', 'category', 6, 'High Risk', '#333333', '#EE99EE', '${polygon(-92, 31, -86, 34.5)}' from outlook_runs where day = 1;
`;
