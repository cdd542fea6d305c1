import type { WeatherFamily } from './family.ts';
import { alert, alerts } from './records/alerts/alerts.ts';
import { convectiveOutlooks } from './records/convective-outlooks.ts';
import { currentConditions } from './records/current-conditions.ts';
import { forecastDiscussions, outlookDiscussions } from './records/discussions.ts';
import { hourlyForecasts, narrativeForecasts } from './records/forecasts.ts';
import { observationHistory } from './records/observation-history.ts';
import { observations } from './records/observations.ts';
import { locations, offices, stations } from './records/places.ts';
import { weatherStories } from './records/weather-stories.ts';

/** All weather families, in the same order as in the documentation. */
export const weatherFamilies = {
  observations,
  observationHistory,
  currentConditions,
  alerts,
  alert,
  hourlyForecasts,
  narrativeForecasts,
  forecastDiscussions,
  weatherStories,
  convectiveOutlooks,
  outlookDiscussions,
  stations,
  locations,
  offices,
} as const satisfies Record<string, WeatherFamily>;

export type FamilyName = keyof typeof weatherFamilies;

export const familyNames = Object.keys(weatherFamilies) as FamilyName[];
