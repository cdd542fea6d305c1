import { alerts } from './families/alerts.ts';
import { convectiveOutlooks } from './families/convective-outlooks.ts';
import { currentConditions } from './families/current-conditions.ts';
import { forecastDiscussions } from './families/forecast-discussions.ts';
import { hourlyForecasts } from './families/hourly-forecasts.ts';
import { narrativeForecasts } from './families/narrative-forecasts.ts';
import { observations } from './families/observations.ts';
import { outlookDiscussions } from './families/outlook-discussions.ts';
import { weatherStories } from './families/weather-stories.ts';
import type { WeatherFamily } from './family.ts';

/** Every family, in the order in which the documentation shows them. */
export const weatherFamilies = {
  observations,
  currentConditions,
  alerts,
  hourlyForecasts,
  narrativeForecasts,
  forecastDiscussions,
  weatherStories,
  convectiveOutlooks,
  outlookDiscussions,
} as const satisfies Record<string, WeatherFamily>;

export type FamilyName = keyof typeof weatherFamilies;

export const familyNames = Object.keys(weatherFamilies) as FamilyName[];
