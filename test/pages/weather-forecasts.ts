/** Hourly and narrative forecasts of a week, as a feeder would store them. */

interface ForecastPlace {
  id: string;
  name: string;
  latitude: number;
  longitude: number;
  timeZone: string;
  state: string;
  /** The local hour at the start of the forecast. */
  firstHour: number;
  /** The mean temperature and how far it rises by day, in degrees Celsius. */
  mean: number;
  rise: number;
  /** The direction and the mean speed of the wind in km/h. */
  wind: readonly [direction: string, kmh: number];
  /** The sky with precipitation, and without it by day and by night. */
  skies: readonly [wet: string, day: string, night: string];
  /** The text of each half day, beginning with this afternoon or this morning. */
  words: readonly string[];
}

/** All forecasts are for the same week. */
const start = '2026-01-20T18:00Z';
const end = '2026-01-27T18:00Z';

const wednesday = ['Tonight', 'Wednesday', 'Wednesday Night', 'Thursday', 'Thursday Night'];

export const newYork: ForecastPlace = {
  ...{ id: 'OKX/33,35', name: 'Manhattan', latitude: 40.77, longitude: -73.98 },
  ...{ timeZone: 'America/New_York', state: 'NY', firstHour: 13, mean: -4, rise: 4, wind: ['NNW', 16] },
  skies: ['Chance Snow', 'Mostly Sunny', 'Partly Cloudy'],
  words: [
    'Snow, mainly after 4 pm. Cloudy, with a high near 33. North wind around 12 mph, with gusts as high as 25 mph.',
    'Snow, heavy at times before midnight. Low around 20. New snow accumulation of four to eight inches possible.',
    'A chance of snow before 10 am, then gradual clearing. High near 36. Northwest wind 10 to 15 mph.',
    'Partly cloudy, with a low around 21. Northwest wind around 8 mph.',
    'Mostly sunny, with a high near 34.',
    'Mostly clear, with a low around 18.',
  ],
};

export const northCountry: ForecastPlace = {
  ...{ id: 'BUF/88,64', name: 'Long Silent Field', latitude: 43.6, longitude: -75.6 },
  ...{ timeZone: 'America/New_York', state: 'NY', firstHour: 13, mean: -7, rise: 3, wind: ['W', 18] },
  skies: ['Snow Showers', 'Partly Sunny', 'Mostly Cloudy'],
  words: [
    'Snow showers. Cloudy, with a high near 24. West wind 8 to 13 mph.',
    'Snow showers, mainly before midnight. Low around 12. New snow accumulation of one to three inches possible.',
    'A chance of snow showers. Partly sunny, with a high near 24.',
    'Mostly cloudy, with a low around 11.',
    'Partly sunny, with a high near 25.',
    'Mostly cloudy, with a low around 14.',
  ],
};

export const mississippi: ForecastPlace = {
  ...{ id: 'JAN/99,70', name: 'Meridian', latitude: 32.33, longitude: -88.75 },
  ...{ timeZone: 'America/Chicago', state: 'MS', firstHour: 12, mean: 17, rise: 5, wind: ['SSW', 24] },
  skies: ['Showers And Thunderstorms', 'Partly Sunny', 'Mostly Cloudy'],
  words: [
    'Severe thunderstorms. Some could produce tornadoes, damaging wind and large hail. High near 72.',
    'Showers and thunderstorms, heavy at times before midnight. Low around 58.',
    'A chance of thunderstorms. Partly sunny, with a high near 70.',
    'Mostly cloudy, with a low around 55.',
    'Partly sunny, with a high near 69.',
    'Mostly cloudy, with a low around 54.',
  ],
};

export const aleutians: ForecastPlace = {
  ...{ id: 'AFC/11,20', name: 'Shemya', latitude: 52.71, longitude: 174.11 },
  ...{ timeZone: 'America/Adak', state: 'AK', firstHour: 8, mean: -3, rise: 1.5, wind: ['SSW', 40] },
  skies: ['Heavy Snow', 'Mostly Cloudy', 'Mostly Cloudy'],
  words: [
    'Heavy snow and blowing snow. High near 28. South wind 25 mph, with gusts as high as 65 mph.',
    'Snow, mainly before 8 pm. Low around 24. Southwest wind 20 to 25 mph.',
    'A chance of snow. Mostly cloudy, with a high near 29.',
    'Mostly cloudy, with a low around 25.',
    'Mostly cloudy, with a high near 30.',
    'Mostly cloudy, with a low around 26.',
  ],
};

/** Quotes a text for SQL. */
export const text = (value: string): string => `'${value.replaceAll("'", "''")}'`;

/** @param odd text that is added to the texts of the forecasts */
export function forecastRows(place: ForecastPlace, odd = ''): string {
  const { id, name, latitude, longitude, timeZone, state, firstHour, mean, rise, wind, skies, words } = place;
  const [office = '', x = '', y = ''] = id.split(/[/,]/);
  const names = [firstHour < 12 ? 'Today' : 'This Afternoon', ...wednesday];
  const [wet, day, night] = skies.map((sky) => text(odd === '' ? sky : `${sky} ${odd}`));
  const isDay = `(n + ${firstHour}) % 24 between 7 and 17`;
  const run = (kind: string): string =>
    `(select max(run_id) from forecast_runs where kind = '${kind}' and location_id = '${id}')`;
  return `
  insert into locations values ('${id}', '${name}', ${latitude}, ${longitude}, '${timeZone}', '${state}');
  insert into forecast_runs (kind, location_id, office, grid_x, grid_y, time_zone, generated_at, updated_at, valid_from, valid_until)
    select kind, '${id}', '${office}', ${x}, ${y}, '${timeZone}', '${start}', '${start}', '${start}', '${end}'
    from unnest(array['hourly', 'narrative']) kind;
  insert into forecast_periods (run_id, number, starts_at, ends_at, is_daytime, temperature_c, dewpoint_c, precipitation_probability_pct,
      wind_speed_max_kmh, wind_direction, short_forecast)
    select ${run('hourly')}, n + 1, '${start}'::timestamptz + n * interval '1 hour', '${start}'::timestamptz + (n + 1) * interval '1 hour',
      ${isDay}, ${mean} + ${rise} * sin((n + ${firstHour} - 9) * 0.2618) + 2 * sin(n * 0.05), least(${mean - 4} + 2 * sin(n * 0.2), ${mean - 1} + ${rise} * sin((n + ${firstHour} - 9) * 0.2618) + 2 * sin(n * 0.05)),
      greatest(0, round(60 * sin(n * 0.07))), round(${wind[1]} + 8 * sin(n * 0.11) + n % 3), '${wind[0]}',
      case when sin(n * 0.07) > 0.1 then ${wet} when ${isDay} then ${day} else ${night} end from generate_series(0, 167) n;
  ${words
    .map(
      (said, index) => `
  insert into forecast_periods (run_id, number, starts_at, ends_at, name, is_daytime, temperature_c, short_forecast, detailed_forecast)
    values (${run('narrative')}, ${index + 1}, '${start}'::timestamptz + interval '${index * 12} hours',
      '${start}'::timestamptz + interval '${index * 12 + 12} hours', '${names[index] ?? ''}', ${index % 2 === 0},
      ${mean + (index % 2 === 0 ? rise : -rise)}, ${text(said.split(/[.,]/, 1)[0] ?? '')}, ${text(`${said} ${odd}`.trim())});`,
    )
    .join('')}`;
}
