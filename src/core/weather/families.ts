import { alert, alerts } from './families/alerts/alerts.ts';
import { convectiveOutlooks } from './families/convective-outlooks.ts';
import { currentConditions } from './families/current-conditions.ts';
import { forecastDiscussions } from './families/forecast-discussions.ts';
import { hourlyForecasts } from './families/hourly-forecasts.ts';
import { narrativeForecasts } from './families/narrative-forecasts.ts';
import { observationHistory } from './families/observation-history.ts';
import { observations } from './families/observations.ts';
import { outlookDiscussions } from './families/outlook-discussions.ts';
import { locations, offices, stations } from './families/places.ts';
import { weatherStories } from './families/weather-stories.ts';
import type { WeatherFamily } from './family.ts';

/** Every family, in the order in which the documentation shows them. */
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

/** Families that tell the present, and so grow old. */
export type DatedFamily = Exclude<
  FamilyName,
  'alert' | 'observationHistory' | 'stations' | 'locations' | 'offices'
>;

export const familyNames = Object.keys(weatherFamilies) as FamilyName[];
