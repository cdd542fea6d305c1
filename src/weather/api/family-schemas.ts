import type { JsonSchema } from '../../api/http/route.ts';
import type { FamilyName } from '../families.ts';
import type { AlertData, AlertParameterData } from '../records/alerts/alert-queries.ts';
import type { AlertsData, AlertTestData } from '../records/alerts/alerts.ts';
import type { ConvectiveOutlookData } from '../records/convective-outlooks.ts';
import type {
  DiscussionSectionData,
  ForecastDiscussionData,
  OutlookDiscussionData,
} from '../records/discussions.ts';
import type { ForecastPeriodData, ForecastRunData } from '../records/forecast-runs.ts';
import type { HourlyForecastData, NarrativeForecastData, NarrativePeriodData } from '../records/forecasts.ts';
import {
  hazards,
  type OutlookAreaData,
  type OutlookRiskData,
  type OutlookWindowData,
} from '../records/outlook-states.ts';
import type { WeatherStoriesData, WeatherStoryData } from '../records/weather-stories.ts';
import type { ForecastUnits } from '../units.ts';
import { unknownReasons } from '../values.ts';
import {
  currentConditions,
  locations,
  observationHistory,
  observations,
  offices,
  stations,
} from './observation-schemas.ts';
import {
  count,
  degreesEast,
  degreesNorth,
  flag,
  geometry,
  instantOf,
  listOf,
  oneOf,
  orNull,
  quantity,
  record,
  text,
  textOrNull,
  timeZone,
  unit,
} from './schema-fields.ts';

const alert = record<AlertData>({
  id: text('CAP identifier.', 'urn:oid:2.49.0.1.840.0.…'),
  event: text('What it is about.', 'Tornado Warning'),
  eventCode: textOrNull('The NWS code of the event.', 'TOR'),
  headline: textOrNull('Headline.'),
  severity: oneOf(['Extreme', 'Severe', 'Moderate', 'Minor', 'Unknown'], 'How bad.'),
  certainty: text('How sure.', 'Observed'),
  urgency: text('How soon.', 'Immediate'),
  status: text('`Actual`.', 'Actual'),
  messageType: text('`Alert` or `Update`.', 'Alert'),
  category: text('CAP category.', 'Met'),
  sentAt: orNull(instantOf('When it was sent')),
  effectiveAt: orNull(instantOf('When it takes effect')),
  onsetAt: orNull(instantOf('When the event is to begin')),
  expiresAt: instantOf('When this message is to be replaced; not the end of the event'),
  endsAt: orNull(instantOf('The end of the event, if it is known')),
  office: textOrNull('The forecast office.', 'OKX'),
  senderName: textOrNull('The sender.'),
  areaDescription: text('The area in words.'),
  zones: listOf(text('UGC code.', 'NYZ072')),
  affectedZones: listOf(text('Kind and UGC code: some codes are those of several zones.', 'public/NYZ072')),
  isTest: flag('Whether it is a test or an exercise, and no warning.'),
  description: textOrNull('The text of the alert.'),
  instruction: textOrNull('What to do.'),
  response: textOrNull('What to do, in one word.', 'Shelter'),
  language: text('Language tag.', 'en-US'),
  vtec: listOf({ type: ['string', 'null'] }, 'P-VTEC codes, as they came.'),
  same: listOf(text('SAME code of a county.', '036061')),
  parameters: listOf(
    record<AlertParameterData>({
      name: text('Name.', 'NWSheadline'),
      values: listOf(text('Value.')),
    }),
    'What else the message has.',
  ),
  references: listOf(text('Identifier of an alert that this one updates.')),
  geometry,
});
const alerts = record<AlertsData>({
  fetchedAt: instantOf('The poll whose list this is'),
  sourceUpdatedAt: orNull(instantOf("When the provider's list was updated")),
  timeZone,
  total: count('All that match, of which `alerts` holds the first `limit`.'),
  unplaced: {
    description:
      'How many others may hold at `point` or in `bbox`: without a geometry, and with zones of no known outline.',
    type: ['integer', 'null'],
    minimum: 0,
  },
  alerts: listOf(alert, 'Most severe first, then those sent last.'),
  tests: listOf(
    record<AlertTestData>({
      id: text('CAP identifier.', 'urn:oid:2.49.0.1.840.0.…'),
      event: text('What it would be about.', 'Tsunami Warning'),
      status: text('`Test`, `Exercise`, or `Actual` with a code of a test.', 'Test'),
      headline: textOrNull('Headline.'),
      areaDescription: text('The area in words.'),
      senderName: textOrNull('The sender.'),
      expiresAt: instantOf('When this message is to be replaced'),
      endsAt: orNull(instantOf('The end, if it is known')),
    }),
    'Tests and exercises, which warn of nothing; up to 20.',
  ),
});

const run: { [K in keyof ForecastRunData]: JsonSchema } = {
  location: text('Grid cell.', 'OKX/33,35'),
  office: text('Forecast office.', 'OKX'),
  gridX: count('Column of the cell.', 33),
  gridY: count('Row of the cell.', 35),
  latitude: degreesNorth,
  longitude: degreesEast,
  timeZone: orNull(timeZone),
  generatedAt: instantOf('When it was generated'),
  updatedAt: orNull(instantOf('When the forecast was updated')),
  validFrom: orNull(instantOf('Begin')),
  validUntil: orNull(instantOf('End')),
  elevation: quantity('Above sea level', 'm', 'ft'),
  units: record<ForecastUnits>(
    {
      temperature: unit('degC', 'degF'),
      windSpeed: unit('km/h', 'mph'),
      relativeHumidity: unit('%'),
      probability: unit('%'),
      elevation: unit('m', 'ft'),
    },
    'The unit of each quantity.',
  ),
};
const period: { [K in keyof ForecastPeriodData]: JsonSchema } = {
  number: count('From 1, of the run.'),
  startsAt: instantOf('Begin'),
  endsAt: instantOf('End'),
  isDaytime: flag('Whether it is day.'),
  temperature: quantity('Air temperature', 'degC', 'degF'),
  dewpoint: quantity('Dewpoint', 'degC', 'degF'),
  relativeHumidity: quantity('Relative humidity', '%'),
  precipitationProbability: quantity('Probability of precipitation', '%'),
  windSpeedMin: quantity('Least wind speed', 'km/h', 'mph'),
  windSpeedMax: quantity('Greatest wind speed', 'km/h', 'mph'),
  windGust: quantity('Gusts', 'km/h', 'mph'),
  windDirection: textOrNull('One of 16 points.', 'NNW'),
  shortForecast: textOrNull('In a few words.', 'Mostly Sunny'),
  iconUrl: textOrNull('Icon.'),
};
const hourlyForecasts = record<HourlyForecastData>({
  ...run,
  periods: listOf(record<ForecastPeriodData>(period), 'Hours, from the present one.'),
});
const narrativeForecasts = record<NarrativeForecastData>({
  ...run,
  periods: listOf(
    record<NarrativePeriodData>({
      ...period,
      name: textOrNull('Name.', 'Tonight'),
      temperatureTrend: { type: ['string', 'null'], enum: ['rising', 'falling', null] },
      detailedForecast: textOrNull('In sentences.'),
    }),
    'Half days.',
  ),
});

const forecastDiscussions = record<ForecastDiscussionData>({
  id: text('Identifier of the product.'),
  office: text('Forecast office.', 'OKX'),
  issuedAt: instantOf('When it was issued'),
  timeZone,
  wmoHeader: textOrNull('WMO header.', 'FXUS61 KOKX 201435'),
  awipsId: textOrNull('AWIPS identifier.', 'AFDOKX'),
  correction: textOrNull('Such as `AAA`.'),
  sections: listOf(
    record<DiscussionSectionData>({
      heading: text('Heading.', 'SYNOPSIS'),
      qualifier: textOrNull('Such as `through Tonight`.'),
      body: text('Text.'),
    }),
  ),
  text: text('The whole product.'),
});

const weatherStories = record<WeatherStoriesData>({
  office: text('Forecast office.', 'OKX'),
  fetchedAt: instantOf('When the stories were fetched'),
  timeZone,
  stories: listOf(
    record<WeatherStoryData>({
      title: text('Title.'),
      description: text('Text.'),
      altText: textOrNull('What the image shows.'),
      imageUrl: textOrNull('Image.'),
      priority: flag('Whether the office marks it.'),
      startsAt: orNull(instantOf('From')),
      endsAt: orNull(instantOf('To')),
      updatedAt: orNull(instantOf('When it was updated')),
    }),
  ),
});

const window: { [K in keyof OutlookWindowData]: JsonSchema } = {
  day: count('1 (today) to 8.', 1),
  issuedAt: instantOf('When it was issued'),
  validFrom: instantOf('Begin; a re-issued one is cut short'),
  validUntil: instantOf('End'),
  timeZone,
};
const convectiveOutlooks = record<ConvectiveOutlookData>({
  ...window,
  forecaster: textOrNull('Forecasters.'),
  maximumCategory: textOrNull(
    'The highest category that is known, whatever hazards were asked for; null if there is none. `meta.unknown` says if there may be a higher one.',
    'SLGT',
  ),
  risk: orNull(
    listOf(
      record<OutlookRiskData>({
        hazard: oneOf(hazards, 'What is expected.'),
        state: oneOf(
          ['outlined', 'none', 'unknown'],
          '`none`: no area of it holds the point. `unknown`: that cannot be said.',
        ),
        reason: {
          description: 'Why it is unknown; null if it is known.',
          type: ['string', 'null'],
          enum: [...unknownReasons, null],
        },
        category: textOrNull('The highest category there.', 'SLGT'),
        categoryText: textOrNull('In words.', 'Slight Risk'),
        probability: quantity('Probability within 25 miles', '%'),
        intensity: textOrNull('The highest intensity group there.', 'CIG1'),
      }),
      'At `point`, of each hazard that an outlook of the day has; null without one.',
    ),
  ),
  areas: listOf(
    record<OutlookAreaData>({
      hazard: oneOf(hazards, 'What is expected.'),
      kind: oneOf(['category', 'probability', 'intensity'], 'What the label is.'),
      label: text('`TSTM`..`HIGH`, `0.02`..`0.60`, `SIGN` or `CIG1`..`CIG3`.', 'SLGT'),
      labelText: textOrNull('In words.'),
      rank: count('Order within hazard and kind, from the least.'),
      probability: quantity('Probability within 25 miles', '%'),
      stroke: textOrNull('Colour.'),
      fill: textOrNull('Colour.'),
      geometry,
    }),
  ),
});
const outlookDiscussions = record<OutlookDiscussionData>({
  ...window,
  productId: text('Identifier of the product.'),
  correction: textOrNull('Such as `CORR 1`.'),
  headline: textOrNull('Headline.'),
  summary: textOrNull('Summary.'),
  text: text('The whole product.'),
});

/** The schema of `data` of each family, for an answer that has data. */
export const familySchemas: Readonly<Record<FamilyName, JsonSchema>> = {
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
};
