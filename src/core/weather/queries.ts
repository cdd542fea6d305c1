/**
 * What a request asks the reader for, parsed and within its range. A selector that is null takes the newest
 * record of any place.
 */
export type UnitSystem = 'si' | 'us';

export interface ObservationQuery {
  /** Upper case: `KNYC`. */
  station: string | null;
  units: UnitSystem;
}

export interface CurrentConditionsQuery {
  /** At most 5, upper case, in the order of their priority; none: the station of the newest observation. */
  stations: readonly string[];
  maxAgeMinutes: number;
  units: UnitSystem;
}

export type AlertSeverity = 'Extreme' | 'Severe' | 'Moderate' | 'Minor' | 'Unknown';

export interface AlertsQuery {
  /** Where: at most one of these. */
  area:
    | { kind: 'anywhere' }
    /** UGC codes such as `NYZ072` or `WAC033`, at most 50. */
    | { kind: 'zones'; zones: readonly string[] }
    /** The first two letters of UGC codes: a state or a marine area. */
    | { kind: 'area'; area: string }
    /** Three letters of a forecast office: `SEW`. */
    | { kind: 'office'; office: string };
  /** Any of these; none: all. */
  severities: readonly AlertSeverity[];
  /** Any of these names, compared without case; none: all. */
  events: readonly string[];
  limit: number;
}

export interface HourlyForecastQuery {
  /** `OKX/33,35` */
  location: string | null;
  /** How many periods from the first of the run. */
  hours: number;
  units: UnitSystem;
}

export interface NarrativeForecastQuery {
  location: string | null;
  periods: number;
  units: UnitSystem;
}

export interface ForecastDiscussionQuery {
  /** Three letters: `OKX`. */
  office: string | null;
}

export interface WeatherStoriesQuery {
  office: string | null;
  limit: number;
}

export type OutlookHazard = 'categorical' | 'tornado' | 'wind' | 'hail' | 'any_severe';

export interface ConvectiveOutlookQuery {
  day: number;
  /** None: all. */
  hazards: readonly OutlookHazard[];
  /**
   * `issued`: the run issued last. `effective`: the one issued last among those whose window holds this
   * moment.
   */
  select: 'issued' | 'effective';
  geometry: boolean;
}

export interface OutlookDiscussionQuery {
  day: number;
}
