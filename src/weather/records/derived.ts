import { celsius, fahrenheit, milesPerHour } from '../units.ts';

export type FeelsLikeMethod = 'wind_chill' | 'heat_index' | 'temperature';

/**
 * Relative humidity in percent from temperature and dewpoint in °C.
 *
 * Magnus form with the coefficients of O. A. Alduchov and R. E. Eskridge, "Improved Magnus Form Approximation
 * of Saturation Vapor Pressure", Journal of Applied Meteorology 35 (1996).
 */
export function relativeHumidity(temperatureC: number, dewpointC: number): number {
  const magnus = (t: number): number => (17.625 * t) / (243.04 + t);
  return 100 * Math.exp(magnus(dewpointC) - magnus(temperatureC));
}

/**
 * Wind chill in °C from temperature in °C and wind in km/h. null above 50 °F or with wind of 3 mph or less,
 * for which it is not defined.
 *
 * The formula of 2001 of the National Weather Service and Environment Canada, in °F and mph.
 */
export function windChill(temperatureC: number, windSpeedKmh: number): number | null {
  const t = fahrenheit(temperatureC);
  const v = milesPerHour(windSpeedKmh);
  if (!chills(t, v)) return null;
  const power = v ** 0.16;
  return celsius(35.74 + 0.6215 * t - 35.75 * power + 0.4275 * t * power);
}

/**
 * Heat index in °C from temperature in °C and relative humidity in percent.
 *
 * L. P. Rothfusz, "The Heat Index Equation", NWS Southern Region technical attachment SR 90-23 (1990), with
 * the two adjustments of the Weather Prediction Center. Below 80 °F, the simple formula is used.
 */
export function heatIndex(temperatureC: number, relativeHumidityPct: number): number {
  const t = fahrenheit(temperatureC);
  const r = relativeHumidityPct;
  const simple = 0.5 * (t + 61 + (t - 68) * 1.2 + r * 0.094);
  return celsius(simple < 80 ? simple : regression(t, r) + adjustment(t, r));
}

/**
 * The apparent temperature in °C and its method, by NWS Instruction 10-201. Wind chill at 50 °F or less
 * with wind above 3 mph, heat index at 80 °F or more, else the temperature itself. Without wind or
 * humidity, the temperature is used, too.
 */
export function feelsLike(
  temperatureC: number,
  windSpeedKmh: number | null,
  relativeHumidityPct: number | null,
): { value: number; method: FeelsLikeMethod } {
  const chill = windSpeedKmh === null ? null : windChill(temperatureC, windSpeedKmh);
  if (chill !== null) return { value: chill, method: 'wind_chill' };
  if (fahrenheit(temperatureC) >= 80 && relativeHumidityPct !== null)
    return { value: heatIndex(temperatureC, relativeHumidityPct), method: 'heat_index' };
  return { value: temperatureC, method: 'temperature' };
}

function chills(fahrenheit: number, mph: number): boolean {
  return fahrenheit <= 50 && mph > 3;
}

function regression(t: number, r: number): number {
  return (
    -42.379 +
    2.04901523 * t +
    10.14333127 * r -
    0.22475541 * t * r -
    0.00683783 * t * t -
    0.05481717 * r * r +
    0.00122874 * t * t * r +
    0.00085282 * t * r * r -
    0.00000199 * t * t * r * r
  );
}

/** Corrects the regression: dry air cools better, and very moist air worse. */
function adjustment(t: number, r: number): number {
  if (r < 13 && t >= 80 && t <= 112) return -((13 - r) / 4) * Math.sqrt((17 - Math.abs(t - 95)) / 17);
  if (r > 85 && t >= 80 && t <= 87) return ((r - 85) / 10) * ((87 - t) / 5);
  return 0;
}
