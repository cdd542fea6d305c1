import type { WeatherService } from './service.ts';

/** What the weather routes need. */
export interface WeatherPorts {
  /** Null if no database is configured. */
  weather: WeatherService | null;
}
