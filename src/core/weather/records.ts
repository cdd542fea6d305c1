import type { ForecastUnits, ObservationUnits } from './quantity-units.ts';
import type { AlertSeverity, OutlookHazard } from './queries.ts';

/**
 * The `data` of each endpoint, key by key as it stands in JSON. Every key is always there and null where
 * unknown; numbers are converted to the units that `units` names and rounded once; an `Instant` is
 * `YYYY-MM-DDTHH:mm:ssZ`, and `timeZone` (IANA) is for display only: `UTC` where the record has none of its
 * own.
 */
export type Instant = string;

export interface StationData {
  id: string;
  name: string;
  /** Degrees north and east. */
  latitude: number;
  longitude: number;
  elevation: number | null;
}

export interface PresentWeatherData {
  intensity: 'light' | 'heavy' | null;
  modifier: string | null;
  phenomenon: string;
  /** As in the METAR: `-RA`. */
  raw: string;
  inVicinity: boolean;
}

export interface CloudData {
  amount: 'SKC' | 'CLR' | 'FEW' | 'SCT' | 'BKN' | 'OVC' | 'VV';
  base: number | null;
}

/** The measured values of one observation. */
export interface MeasuredData {
  temperature: number | null;
  dewpoint: number | null;
  relativeHumidity: number | null;
  windDirection: number | null;
  windSpeed: number | null;
  windGust: number | null;
  altimeter: number | null;
  seaLevelPressure: number | null;
  visibility: number | null;
  temperatureMax24h: number | null;
  temperatureMin24h: number | null;
  precipitation1h: number | null;
  precipitation3h: number | null;
  precipitation6h: number | null;
  heatIndex: number | null;
  windChill: number | null;
}

export interface ObservationData extends MeasuredData {
  station: StationData;
  observedAt: Instant;
  timeZone: string;
  receivedAt: Instant;
  textDescription: string | null;
  rawMessage: string | null;
  presentWeather: PresentWeatherData[];
  clouds: CloudData[];
  /**
   * The MADIS quality letter of each value: V verified, C coarse, S screened, X and B refused, Q questioned,
   * Z none.
   */
  quality: Record<keyof MeasuredData, string | null>;
  units: ObservationUnits;
}

export interface FieldSource {
  station: string;
  observedAt: Instant;
}

/**
 * What an aggregated value came from; wind, sky (text, weather, clouds) and each precipitation window are
 * taken as one.
 */
export interface CurrentConditionsSources {
  temperature: FieldSource | null;
  dewpoint: FieldSource | null;
  relativeHumidity: FieldSource | null;
  wind: FieldSource | null;
  altimeter: FieldSource | null;
  seaLevelPressure: FieldSource | null;
  visibility: FieldSource | null;
  sky: FieldSource | null;
  temperatureMax24h: FieldSource | null;
  temperatureMin24h: FieldSource | null;
  precipitation1h: FieldSource | null;
  precipitation3h: FieldSource | null;
  precipitation6h: FieldSource | null;
}

export type FeelsLikeMethod = 'wind_chill' | 'heat_index' | 'temperature';

export interface CurrentConditionsData extends MeasuredData {
  /** The first station, in the order asked for, that gave a value. */
  station: StationData;
  /** Of the newest observation that gave a value. */
  observedAt: Instant;
  timeZone: string;
  textDescription: string | null;
  presentWeather: PresentWeatherData[];
  clouds: CloudData[];
  feelsLike: number | null;
  feelsLikeMethod: FeelsLikeMethod | null;
  source: CurrentConditionsSources;
  units: ObservationUnits;
}

/** A GeoJSON geometry (WGS 84, longitude first); XML and text treat it as one value. */
export type Geometry = Readonly<Record<string, unknown>>;

export interface AlertData {
  id: string;
  event: string;
  eventCode: string | null;
  headline: string | null;
  severity: AlertSeverity;
  certainty: string;
  urgency: string;
  status: string;
  messageType: string;
  category: string;
  sentAt: Instant;
  effectiveAt: Instant;
  onsetAt: Instant | null;
  /** When this message is to be replaced; not the end of the event, and at times before `onsetAt`. */
  expiresAt: Instant;
  /** The end of the event, where it is known. */
  endsAt: Instant | null;
  office: string | null;
  senderName: string | null;
  areaDescription: string;
  /** UGC codes. */
  zones: string[];
  description: string | null;
  instruction: string | null;
  response: string | null;
  language: string;
  vtec: string[];
  references: string[];
  geometry: Geometry | null;
}

export interface AlertsData {
  /** The poll whose list this is. */
  fetchedAt: Instant;
  sourceUpdatedAt: Instant | null;
  timeZone: string;
  /** All that match, of which `alerts` holds the first `limit`: most severe first, then those sent last. */
  total: number;
  alerts: AlertData[];
}

export interface ForecastRunData {
  location: string;
  office: string;
  gridX: number;
  gridY: number;
  timeZone: string;
  generatedAt: Instant;
  updatedAt: Instant;
  validFrom: Instant;
  validUntil: Instant;
  elevation: number | null;
  units: ForecastUnits;
}

export interface HourlyPeriodData {
  number: number;
  startsAt: Instant;
  endsAt: Instant;
  isDaytime: boolean;
  temperature: number | null;
  dewpoint: number | null;
  relativeHumidity: number | null;
  precipitationProbability: number | null;
  windSpeedMin: number | null;
  windSpeedMax: number | null;
  windGust: number | null;
  /** One of 16 points: `NNW`. */
  windDirection: string | null;
  shortForecast: string | null;
  iconUrl: string | null;
}

export interface NarrativePeriodData extends HourlyPeriodData {
  name: string | null;
  temperatureTrend: 'rising' | 'falling' | null;
  detailedForecast: string | null;
}

export interface HourlyForecastData extends ForecastRunData {
  periods: HourlyPeriodData[];
}

export interface NarrativeForecastData extends ForecastRunData {
  periods: NarrativePeriodData[];
}

export interface DiscussionSectionData {
  heading: string;
  /** Such as `/through Tonight/`, without the slashes. */
  qualifier: string | null;
  body: string;
}

export interface ForecastDiscussionData {
  id: string;
  office: string;
  issuedAt: Instant;
  timeZone: string;
  wmoHeader: string | null;
  awipsId: string | null;
  correction: string | null;
  sections: DiscussionSectionData[];
  text: string;
}

export interface WeatherStoryData {
  title: string;
  description: string;
  altText: string | null;
  imageUrl: string | null;
  priority: boolean;
  startsAt: Instant;
  endsAt: Instant;
  updatedAt: Instant | null;
}

export interface WeatherStoriesData {
  office: string;
  fetchedAt: Instant;
  timeZone: string;
  stories: WeatherStoryData[];
}

export interface OutlookAreaData {
  hazard: OutlookHazard;
  kind: 'category' | 'probability' | 'intensity';
  /** `TSTM`..`HIGH`, `0.02`..`0.60`, `SIGN` or `CIG1`..`CIG3`. */
  label: string;
  labelText: string | null;
  /** Order within hazard and kind, from the least. */
  rank: number;
  /** Percent. */
  probability: number | null;
  stroke: string | null;
  fill: string | null;
  /** Null also where geometry was not asked for. */
  geometry: Geometry | null;
}

export interface ConvectiveOutlookData {
  day: number;
  issuedAt: Instant;
  validFrom: Instant;
  validUntil: Instant;
  timeZone: string;
  forecaster: string | null;
  /** The highest category, or null where there is none. */
  maximumCategory: string | null;
  areas: OutlookAreaData[];
}

export interface OutlookDiscussionData {
  day: number;
  productId: string;
  issuedAt: Instant;
  validFrom: Instant;
  validUntil: Instant;
  timeZone: string;
  correction: string | null;
  headline: string | null;
  summary: string | null;
  text: string;
}

/** What one item of each list is called, for forms such as XML that name every item. */
export const singularNames = {
  presentWeather: 'weather',
  clouds: 'cloud',
  alerts: 'alert',
  zones: 'zone',
  vtec: 'code',
  references: 'reference',
  periods: 'period',
  sections: 'section',
  stories: 'story',
  areas: 'area',
} as const satisfies Record<string, string>;
