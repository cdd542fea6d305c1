/** What `waybill weather feed` asks for, and which database it fills. */
export interface FeedConfig {
  /** Name of the database; null: the first. */
  database: string | null;
  /** Variable that holds the URL of a role that may write; null: that of the database. */
  urlEnv: string | null;
  watch: WatchConfig | null;
  nws: NwsConfig | null;
}

export interface WatchConfig {
  /** Absolute. */
  directory: string;
  settleMs: number;
}

/** What can be asked for, each with a rhythm of its own. */
export type SourceName =
  'alerts' | 'observations' | 'forecasts' | 'forecastDiscussions' | 'weatherStories' | 'outlooks' | 'places';

export interface NwsConfig {
  userAgent: string;
  /** Without a slash at the end; so are those of SPC. */
  baseUrl: string;
  spcBaseUrl: string;
  /** Null: none; both lists empty: all that are active. */
  alerts: { areas: readonly string[]; zones: readonly string[] } | null;
  stations: readonly string[];
  locations: readonly string[];
  forecastDiscussions: readonly string[];
  weatherStories: readonly string[];
  /** Days, 1 to 8. */
  outlooks: readonly number[];
  outlookDiscussions: boolean;
  /** Stations of these states, zones with outlines of these states and marine areas, and these offices. */
  places: { stations: readonly string[]; zones: readonly string[]; offices: readonly string[] };
  intervalsMs: Readonly<Record<SourceName, number>>;
  /** Requests that are under way at once. */
  concurrency: number;
  timeoutMs: number;
  /** Bytes of an answer, decompressed. */
  maxBody: number;
}
