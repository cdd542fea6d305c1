import {
  bigint,
  boolean,
  doublePrecision,
  integer,
  jsonb,
  pgTable,
  smallint,
  text,
  timestamp,
} from 'drizzle-orm/pg-core';

/**
 * The tables of the weather contract (`docs/weather-contract.md`), as the reader sees them. The feeder makes
 * and fills them; `search_path` says which schema they stand in.
 */
export const stations = pgTable('stations', {
  stationId: text('station_id').notNull(),
  name: text('name').notNull(),
  latitudeDeg: doublePrecision('latitude_deg').notNull(),
  longitudeDeg: doublePrecision('longitude_deg').notNull(),
  elevationM: doublePrecision('elevation_m'),
  timeZone: text('time_zone').notNull(),
});

export const observations = pgTable('observations', {
  stationId: text('station_id').notNull(),
  observedAt: instant('observed_at').notNull(),
  receivedAt: instant('received_at').notNull(),
  textDescription: text('text_description'),
  rawMessage: text('raw_message'),
  temperatureC: doublePrecision('temperature_c'),
  dewpointC: doublePrecision('dewpoint_c'),
  relativeHumidityPct: doublePrecision('relative_humidity_pct'),
  windDirectionDeg: doublePrecision('wind_direction_deg'),
  windSpeedKmh: doublePrecision('wind_speed_kmh'),
  windGustKmh: doublePrecision('wind_gust_kmh'),
  altimeterPa: doublePrecision('altimeter_pa'),
  seaLevelPressurePa: doublePrecision('sea_level_pressure_pa'),
  visibilityM: doublePrecision('visibility_m'),
  temperatureMax24hC: doublePrecision('temperature_max_24h_c'),
  temperatureMin24hC: doublePrecision('temperature_min_24h_c'),
  precipitation1hMm: doublePrecision('precipitation_1h_mm'),
  precipitation3hMm: doublePrecision('precipitation_3h_mm'),
  precipitation6hMm: doublePrecision('precipitation_6h_mm'),
  heatIndexC: doublePrecision('heat_index_c'),
  windChillC: doublePrecision('wind_chill_c'),
  qc: jsonb('qc').$type<Record<string, string>>().notNull(),
});
export const observationWeather = pgTable('observation_weather', {
  stationId: text('station_id').notNull(),
  observedAt: instant('observed_at').notNull(),
  position: smallint('position').notNull(),
  intensity: text('intensity', { enum: ['light', 'heavy'] }),
  modifier: text('modifier'),
  phenomenon: text('phenomenon').notNull(),
  raw: text('raw').notNull(),
  inVicinity: boolean('in_vicinity').notNull(),
});
export const observationClouds = pgTable('observation_clouds', {
  stationId: text('station_id').notNull(),
  observedAt: instant('observed_at').notNull(),
  position: smallint('position').notNull(),
  amount: text('amount', { enum: ['SKC', 'CLR', 'FEW', 'SCT', 'BKN', 'OVC', 'VV'] }).notNull(),
  baseM: doublePrecision('base_m'),
});

export const alertRuns = pgTable('alert_runs', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
  fetchedAt: instant('fetched_at').notNull(),
  sourceUpdatedAt: instant('source_updated_at'),
});
export const alerts = pgTable('alerts', {
  alertId: text('alert_id').notNull(),
  sentAt: instant('sent_at').notNull(),
  effectiveAt: instant('effective_at').notNull(),
  onsetAt: instant('onset_at'),
  expiresAt: instant('expires_at').notNull(),
  endsAt: instant('ends_at'),
  status: text('status').notNull(),
  messageType: text('message_type').notNull(),
  category: text('category').notNull(),
  severity: text('severity', {
    enum: ['Extreme', 'Severe', 'Moderate', 'Minor', 'Unknown'],
  }).notNull(),
  certainty: text('certainty').notNull(),
  urgency: text('urgency').notNull(),
  event: text('event').notNull(),
  eventCode: text('event_code'),
  vtec: text('vtec').array().notNull(),
  office: text('office'),
  senderName: text('sender_name'),
  headline: text('headline'),
  description: text('description'),
  instruction: text('instruction'),
  response: text('response'),
  areaDesc: text('area_desc').notNull(),
  language: text('language').notNull(),
  parameters: jsonb('parameters').$type<Record<string, unknown>>().notNull(),
  geometry: jsonb('geometry').$type<Record<string, unknown>>(),
});
export const alertRunMembers = pgTable('alert_run_members', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
  alertId: text('alert_id').notNull(),
});
export const alertAreas = pgTable('alert_areas', {
  alertId: text('alert_id').notNull(),
  ugc: text('ugc').notNull(),
  same: text('same'),
});
export const alertReferences = pgTable('alert_references', {
  alertId: text('alert_id').notNull(),
  refId: text('ref_id').notNull(),
  refSender: text('ref_sender'),
  refSentAt: instant('ref_sent_at'),
});

export const forecastRuns = pgTable('forecast_runs', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
  kind: text('kind', { enum: ['hourly', 'narrative'] }).notNull(),
  locationId: text('location_id').notNull(),
  office: text('office').notNull(),
  gridX: integer('grid_x').notNull(),
  gridY: integer('grid_y').notNull(),
  timeZone: text('time_zone').notNull(),
  generatedAt: instant('generated_at').notNull(),
  updatedAt: instant('updated_at').notNull(),
  validFrom: instant('valid_from').notNull(),
  validUntil: instant('valid_until').notNull(),
  elevationM: doublePrecision('elevation_m'),
  receivedAt: instant('received_at').notNull(),
});
export const forecastPeriods = pgTable('forecast_periods', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
  number: smallint('number').notNull(),
  startsAt: instant('starts_at').notNull(),
  endsAt: instant('ends_at').notNull(),
  name: text('name'),
  isDaytime: boolean('is_daytime').notNull(),
  temperatureC: doublePrecision('temperature_c'),
  temperatureTrend: text('temperature_trend', { enum: ['rising', 'falling'] }),
  precipitationProbabilityPct: doublePrecision('precipitation_probability_pct'),
  dewpointC: doublePrecision('dewpoint_c'),
  relativeHumidityPct: doublePrecision('relative_humidity_pct'),
  windSpeedMinKmh: doublePrecision('wind_speed_min_kmh'),
  windSpeedMaxKmh: doublePrecision('wind_speed_max_kmh'),
  windGustKmh: doublePrecision('wind_gust_kmh'),
  windDirection: text('wind_direction'),
  iconUrl: text('icon_url'),
  shortForecast: text('short_forecast'),
  detailedForecast: text('detailed_forecast'),
});

export const forecastDiscussions = pgTable('forecast_discussions', {
  productId: text('product_id').notNull(),
  office: text('office').notNull(),
  issuedAt: instant('issued_at').notNull(),
  wmoHeader: text('wmo_header'),
  awipsId: text('awips_id'),
  correction: text('correction'),
  rawText: text('raw_text').notNull(),
  receivedAt: instant('received_at').notNull(),
});
export const forecastDiscussionSections = pgTable('forecast_discussion_sections', {
  productId: text('product_id').notNull(),
  position: smallint('position').notNull(),
  heading: text('heading').notNull(),
  qualifier: text('qualifier'),
  body: text('body').notNull(),
});

export const weatherStoryRuns = pgTable('weather_story_runs', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
  office: text('office').notNull(),
  fetchedAt: instant('fetched_at').notNull(),
});
export const weatherStories = pgTable('weather_stories', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
  position: smallint('position').notNull(),
  title: text('title').notNull(),
  description: text('description').notNull(),
  altText: text('alt_text'),
  imageUrl: text('image_url'),
  priority: boolean('priority').notNull(),
  startsAt: instant('starts_at').notNull(),
  endsAt: instant('ends_at').notNull(),
  updatedAt: instant('updated_at'),
});

export const outlookRuns = pgTable('outlook_runs', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
  shape: text('shape').notNull(),
  day: smallint('day').notNull(),
  issuedAt: instant('issued_at').notNull(),
  validFrom: instant('valid_from').notNull(),
  validUntil: instant('valid_until').notNull(),
  forecaster: text('forecaster'),
  receivedAt: instant('received_at').notNull(),
});
export const outlooks = pgTable('outlooks', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
  hazard: text('hazard', {
    enum: ['categorical', 'tornado', 'wind', 'hail', 'any_severe'],
  }).notNull(),
  label: text('label').notNull(),
  part: smallint('part').notNull(),
  kind: text('kind', { enum: ['category', 'probability', 'intensity'] }).notNull(),
  rank: smallint('rank').notNull(),
  probabilityPct: doublePrecision('probability_pct'),
  labelText: text('label_text'),
  stroke: text('stroke'),
  fill: text('fill'),
  geometry: jsonb('geometry').$type<Record<string, unknown>>().notNull(),
});
export const outlookDiscussions = pgTable('outlook_discussions', {
  runId: bigint('run_id', { mode: 'number' }).notNull(),
  productId: text('product_id').notNull(),
  issuedAt: instant('issued_at').notNull(),
  correction: text('correction'),
  headline: text('headline'),
  summary: text('summary'),
  rawText: text('raw_text').notNull(),
});

function instant(name: string) {
  return timestamp(name, { withTimezone: true, mode: 'date' });
}
