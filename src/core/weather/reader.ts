import type {
  AlertsQuery,
  ConvectiveOutlookQuery,
  CurrentConditionsQuery,
  ForecastDiscussionQuery,
  HourlyForecastQuery,
  NarrativeForecastQuery,
  ObservationQuery,
  OutlookDiscussionQuery,
  WeatherStoriesQuery,
} from './queries.ts';
import type {
  AlertsData,
  ConvectiveOutlookData,
  CurrentConditionsData,
  ForecastDiscussionData,
  HourlyForecastData,
  NarrativeForecastData,
  ObservationData,
  OutlookDiscussionData,
  WeatherStoriesData,
} from './records.ts';

/** What one read gave. */
export interface Reading<T> {
  /** Null: no record exists. A run that holds nothing is data with an empty list. */
  data: T | null;
  /**
   * When the newest row that was used was last written or issued; null where it says nothing (alerts, no
   * data).
   */
  lastModified: Date | null;
}

/**
 * The latest weather records, read and never written. Every method answers from one consistent snapshot and
 * throws `database_unavailable` (try again), `schema_mismatch`, or `internal_error`; no message of theirs
 * holds SQL or a secret.
 */
export interface WeatherReader {
  observations(query: ObservationQuery): Promise<Reading<ObservationData>>;
  currentConditions(query: CurrentConditionsQuery): Promise<Reading<CurrentConditionsData>>;
  alerts(query: AlertsQuery): Promise<Reading<AlertsData>>;
  hourlyForecasts(query: HourlyForecastQuery): Promise<Reading<HourlyForecastData>>;
  narrativeForecasts(query: NarrativeForecastQuery): Promise<Reading<NarrativeForecastData>>;
  forecastDiscussions(query: ForecastDiscussionQuery): Promise<Reading<ForecastDiscussionData>>;
  weatherStories(query: WeatherStoriesQuery): Promise<Reading<WeatherStoriesData>>;
  convectiveOutlooks(query: ConvectiveOutlookQuery): Promise<Reading<ConvectiveOutlookData>>;
  outlookDiscussions(query: OutlookDiscussionQuery): Promise<Reading<OutlookDiscussionData>>;
  /** Closes every database that was opened; throws the first failure after trying all. */
  close(): Promise<void>;
}
