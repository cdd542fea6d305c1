import {
  count,
  type DataOf,
  degreesEast,
  degreesNorth,
  field,
  type FieldsOf,
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
} from '../fields.ts';
import type { ZoneKey } from '../places/position.ts';
import { type UnknownReason, unknownReasons } from '../values.ts';

/* The fields of alerts, forecasts, discussions, stories and outlooks. */

/** The hazards of convective outlooks. The feeder stores them under these names. */
export const hazards = ['categorical', 'tornado', 'wind', 'hail', 'any_severe'] as const;
export type Hazard = (typeof hazards)[number];

export const alertRecord = record({
  id: text('CAP identifier.', 'urn:oid:2.49.0.1.840.0.…'),
  event: text('Name of the event.', 'Tornado Warning'),
  eventCode: textOrNull('The NWS code of the event.', 'TOR'),
  headline: textOrNull('Headline.'),
  severity: oneOf(['Extreme', 'Severe', 'Moderate', 'Minor', 'Unknown'], 'How bad.'),
  certainty: text('How sure.', 'Observed'),
  urgency: text('How soon.', 'Immediate'),
  status: text('`Actual`.', 'Actual'),
  messageType: text('`Alert` or `Update`.', 'Alert'),
  category: text('CAP category.', 'Met'),
  sentAt: orNull(instantOf('Time of sending')),
  effectiveAt: orNull(instantOf('Time from which the message is effective')),
  onsetAt: orNull(instantOf('Expected start of the event')),
  expiresAt: instantOf('Time at which this message expires; not the end of the event'),
  endsAt: orNull(instantOf('Expected end of the event')),
  office: textOrNull('The forecast office.', 'OKX'),
  senderName: textOrNull('The sender.'),
  areaDescription: text('The area in words.'),
  zones: listOf(text('UGC code.', 'NYZ072')),
  affectedZones: listOf(
    field<ZoneKey>(text('Kind and UGC code. Some codes belong to several zones.', 'public/NYZ072')),
  ),
  isTest: flag('Whether it is a test or an exercise.'),
  description: textOrNull('The text of the alert.'),
  instruction: textOrNull('Recommended action.'),
  response: textOrNull('Recommended action in one word.', 'Shelter'),
  language: text('Language tag.', 'en-US'),
  vtec: listOf(field<string | null>({ type: ['string', 'null'] }), 'P-VTEC codes, unchanged.'),
  same: listOf(text('SAME code of a county.', '036061')),
  parameters: listOf(
    record({
      name: text('Name.', 'NWSheadline'),
      values: listOf(text('Value.')),
    }),
    'Other parameters of the message.',
  ),
  references: listOf(text('Identifier of an alert that this one updates.')),
  geometry,
});
export const alertsRecord = record({
  fetchedAt: instantOf('Time of the poll that returned this list'),
  sourceUpdatedAt: orNull(instantOf("When the provider's list was updated")),
  timeZone,
  total: count('Number of matches. `alerts` has the first `limit` of them.'),
  unplaced: field<number | null>({
    description:
      'Number of alerts that may apply at `point` or in `bbox`: they have no geometry, and the outlines of their zones are unknown.',
    type: ['integer', 'null'],
    minimum: 0,
  }),
  alerts: listOf(alertRecord, 'Most severe first, then most recent first.'),
  tests: listOf(
    record({
      id: text('CAP identifier.', 'urn:oid:2.49.0.1.840.0.…'),
      event: text('Name of the event.', 'Tsunami Warning'),
      status: text('`Test`, `Exercise`, or `Actual` with a code of a test.', 'Test'),
      headline: textOrNull('Headline.'),
      areaDescription: text('The area in words.'),
      senderName: textOrNull('The sender.'),
      expiresAt: instantOf('Time at which this message expires'),
      endsAt: orNull(instantOf('Expected end')),
    }),
    'Tests and exercises, at most 20.',
  ),
});

const run = {
  location: text('Grid cell.', 'OKX/33,35'),
  office: text('Forecast office.', 'OKX'),
  gridX: count('Column of the cell.', 33),
  gridY: count('Row of the cell.', 35),
  latitude: degreesNorth,
  longitude: degreesEast,
  timeZone: orNull(timeZone),
  generatedAt: instantOf('Time of generation'),
  updatedAt: orNull(instantOf('Time of the last update of the forecast')),
  validFrom: orNull(instantOf('Begin')),
  validUntil: orNull(instantOf('End')),
  elevation: quantity('Above sea level', 'm', 'ft'),
  units: record(
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
const period = {
  number: count('Number in the run, starting at 1.'),
  startsAt: instantOf('Begin'),
  endsAt: instantOf('End'),
  isDaytime: flag('Whether the period is daytime.'),
  temperature: quantity('Air temperature', 'degC', 'degF'),
  dewpoint: quantity('Dewpoint', 'degC', 'degF'),
  relativeHumidity: quantity('Relative humidity', '%'),
  precipitationProbability: quantity('Probability of precipitation', '%'),
  windSpeedMin: quantity('Minimum wind speed', 'km/h', 'mph'),
  windSpeedMax: quantity('Maximum wind speed', 'km/h', 'mph'),
  windGust: quantity('Gusts', 'km/h', 'mph'),
  windDirection: textOrNull('One of 16 compass points.', 'NNW'),
  shortForecast: textOrNull('Short text.', 'Mostly Sunny'),
  iconUrl: textOrNull('Icon.'),
};
export const hourlyForecastsRecord = record({
  ...run,
  periods: listOf(record(period), 'Hours, starting with the current one.'),
});
export const narrativeForecastsRecord = record({
  ...run,
  periods: listOf(
    record({
      ...period,
      name: textOrNull('Name.', 'Tonight'),
      temperatureTrend: field<'rising' | 'falling' | null>({
        type: ['string', 'null'],
        enum: ['rising', 'falling', null],
      }),
      detailedForecast: textOrNull('In sentences.'),
    }),
    'Half days.',
  ),
});

export const forecastDiscussionsRecord = record({
  id: text('Identifier of the product.'),
  office: text('Forecast office.', 'OKX'),
  issuedAt: instantOf('Time of issue'),
  timeZone,
  wmoHeader: textOrNull('WMO header.', 'FXUS61 KOKX 201435'),
  awipsId: textOrNull('AWIPS identifier.', 'AFDOKX'),
  correction: textOrNull('Correction code, such as `AAA`.'),
  sections: listOf(
    record({
      heading: text('Heading.', 'SYNOPSIS'),
      qualifier: textOrNull('Qualifier, such as `through Tonight`.'),
      body: text('Text.'),
    }),
  ),
  text: text('Full text of the product.'),
});

export const weatherStoriesRecord = record({
  office: text('Forecast office.', 'OKX'),
  fetchedAt: instantOf('Time at which the stories were fetched'),
  timeZone,
  stories: listOf(
    record({
      title: text('Title.'),
      description: text('Text.'),
      altText: textOrNull('Text alternative of the image.'),
      imageUrl: textOrNull('Image.'),
      priority: flag('Whether the office marks it as a priority.'),
      startsAt: orNull(instantOf('From')),
      endsAt: orNull(instantOf('To')),
      updatedAt: orNull(instantOf('Time of the last update')),
    }),
  ),
});

const window = {
  day: count('1 (today) to 8.', 1),
  issuedAt: instantOf('Time of issue'),
  validFrom: instantOf('Start of validity; shortened if the outlook is reissued'),
  validUntil: instantOf('End'),
  timeZone,
};
export const convectiveOutlooksRecord = record({
  ...window,
  forecaster: textOrNull('Forecasters.'),
  maximumCategory: textOrNull(
    'Highest known category of all hazards, or null. `meta.unknown` is present if a higher one is possible.',
    'SLGT',
  ),
  risk: orNull(
    listOf(
      record({
        hazard: oneOf(hazards, 'Hazard.'),
        state: oneOf(
          ['outlined', 'none', 'unknown'],
          '`none`: the point is in no area of the hazard. `unknown`: the data does not allow a statement.',
        ),
        reason: field<UnknownReason | null>({
          description: 'Reason if unknown, else null.',
          type: ['string', 'null'],
          enum: [...unknownReasons, null],
        }),
        category: textOrNull('The highest category there.', 'SLGT'),
        categoryText: textOrNull('In words.', 'Slight Risk'),
        probability: quantity('Probability within 25 miles', '%'),
        intensity: textOrNull('The highest intensity group there.', 'CIG1'),
      }),
      'Risk at `point` for each hazard of the outlook, or null without `point`.',
    ),
  ),
  areas: listOf(
    record({
      hazard: oneOf(hazards, 'Hazard.'),
      kind: oneOf(['category', 'probability', 'intensity'], 'Kind of the label.'),
      label: text('`TSTM`..`HIGH`, `0.02`..`0.60`, `SIGN` or `CIG1`..`CIG3`.', 'SLGT'),
      labelText: textOrNull('In words.'),
      rank: count('Rank within hazard and kind, lowest first.'),
      probability: quantity('Probability within 25 miles', '%'),
      stroke: textOrNull('Colour.'),
      fill: textOrNull('Colour.'),
      geometry,
    }),
  ),
});
export const outlookDiscussionsRecord = record({
  ...window,
  productId: text('Identifier of the product.'),
  correction: textOrNull('Correction, such as `CORR 1`.'),
  headline: textOrNull('Headline.'),
  summary: textOrNull('Summary.'),
  text: text('Full text of the product.'),
});

export type AlertData = DataOf<typeof alertRecord>;
export type AlertsData = DataOf<typeof alertsRecord>;
export type ForecastRunData = FieldsOf<typeof run>;
export type ForecastPeriodData = FieldsOf<typeof period>;
export type HourlyForecastData = DataOf<typeof hourlyForecastsRecord>;
export type NarrativeForecastData = DataOf<typeof narrativeForecastsRecord>;
export type ForecastDiscussionData = DataOf<typeof forecastDiscussionsRecord>;
export type WeatherStoriesData = DataOf<typeof weatherStoriesRecord>;
export type OutlookWindowData = FieldsOf<typeof window>;
export type ConvectiveOutlookData = DataOf<typeof convectiveOutlooksRecord>;
export type OutlookAreaData = ConvectiveOutlookData['areas'][number];
export type OutlookRiskData = NonNullable<ConvectiveOutlookData['risk']>[number];
export type OutlookDiscussionData = DataOf<typeof outlookDiscussionsRecord>;
