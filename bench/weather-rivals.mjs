/*
 * Handwritten weather readers to compare with. They return the latest observation of a station as the same
 * JSON as /observations, and use postgres.js. They are plain JavaScript, so nothing has to be compiled.
 * Arguments: the variant, the port, and the database.
 *
 * - express: Express 5 with its default ETag
 * - http: only node:http
 * - map: node:http with a Map that caches responses for one second
 */
import { createServer } from 'node:http';
import express from 'express';
import postgres from 'postgres';

const [kind, port, url] = process.argv.slice(2);
const sql = postgres(url, { max: 8, connection: { search_path: 'weather', TimeZone: 'UTC' } });
const keptMs = 1000;
const units = {
  temperature: 'degC',
  windSpeed: 'km/h',
  windDirection: 'deg',
  pressure: 'Pa',
  visibility: 'm',
  precipitation: 'mm',
  relativeHumidity: '%',
  cloudBase: 'm',
  elevation: 'm',
};

/** The name in the response, the column, and the number of decimals. */
const measured = [
  ['temperature', 'temperature_c', 1],
  ['dewpoint', 'dewpoint_c', 1],
  ['relativeHumidity', 'relative_humidity_pct', 0],
  ['windDirection', 'wind_direction_deg', 0],
  ['windSpeed', 'wind_speed_kmh', 1],
  ['windGust', 'wind_gust_kmh', 1],
  ['altimeter', 'altimeter_pa', 0],
  ['seaLevelPressure', 'sea_level_pressure_pa', 0],
  ['visibility', 'visibility_m', 0],
  ['temperatureMax24h', 'temperature_max_24h_c', 1],
  ['temperatureMin24h', 'temperature_min_24h_c', 1],
  ['precipitation1h', 'precipitation_1h_mm', 1],
  ['precipitation3h', 'precipitation_3h_mm', 1],
  ['precipitation6h', 'precipitation_6h_mm', 1],
  ['heatIndex', 'heat_index_c', 1],
  ['windChill', 'wind_chill_c', 1],
];

async function observation(station) {
  const [row] = await sql`
    select o.*, s.name, s.latitude_deg, s.longitude_deg, s.elevation_m, s.time_zone,
      (select coalesce(json_agg(json_build_object('intensity', w.intensity, 'modifier', w.modifier, 'phenomenon',
         w.phenomenon, 'raw', w.raw, 'inVicinity', w.in_vicinity) order by w.position), '[]')
       from observation_weather w where w.station_id = o.station_id and w.observed_at = o.observed_at) as weather,
      (select coalesce(json_agg(json_build_object('amount', c.amount, 'base', c.base_m) order by c.position), '[]')
       from observation_clouds c where c.station_id = o.station_id and c.observed_at = o.observed_at) as clouds
    from observations o join stations s using (station_id)
    where o.station_id = ${station} order by o.observed_at desc limit 1`;
  if (row === undefined) return { data: null };
  const data = {
    station: {
      id: row.station_id,
      name: row.name,
      latitude: row.latitude_deg,
      longitude: row.longitude_deg,
      elevation: rounded(row.elevation_m, 0),
    },
    observedAt: instant(row.observed_at),
    timeZone: row.time_zone,
    receivedAt: instant(row.received_at),
    textDescription: row.text_description,
    rawMessage: row.raw_message,
  };
  for (const [name, column, digits] of measured) data[name] = rounded(row[column], digits);
  data.presentWeather = row.weather;
  data.clouds = row.clouds.map(({ amount, base }) => ({ amount, base: rounded(base, 0) }));
  data.quality = {};
  for (const [name, column] of measured) data.quality[name] = row.qc[column] ?? null;
  data.units = units;
  return { data };
}

function rounded(value, digits) {
  return value === null ? null : Number(value.toFixed(digits)) + 0;
}

function instant(date) {
  return `${date.toISOString().slice(0, 19)}Z`;
}

const type = 'application/json; charset=utf-8';

function stationOf(req) {
  return new URLSearchParams(req.url.slice(req.url.indexOf('?') + 1)).get('station');
}

function answer(res, body) {
  res.writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(body) }).end(body);
}

const servers = {
  express: () =>
    express()
      .get('/observations', async (req, res) => {
        res.json(await observation(req.query.station));
      })
      .listen(Number(port), '127.0.0.1'),
  http: () =>
    createServer(async (req, res) => answer(res, JSON.stringify(await observation(stationOf(req))))).listen(
      Number(port),
      '127.0.0.1',
    ),
  map: () => {
    const kept = new Map();
    return createServer(async (req, res) => {
      const known = kept.get(req.url);
      if (known !== undefined && known.until > performance.now()) return answer(res, known.body);
      const body = JSON.stringify(await observation(stationOf(req)));
      kept.set(req.url, { body, until: performance.now() + keptMs });
      return answer(res, body);
    }).listen(Number(port), '127.0.0.1');
  },
};

servers[kind]();
