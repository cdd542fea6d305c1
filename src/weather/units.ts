/** The unit of each quantity in a response. Quantities that do not occur in it are left out. */
export interface Units {
  temperature: 'degC' | 'degF';
  windSpeed: 'km/h' | 'mph';
  windDirection: 'deg';
  pressure: 'Pa' | 'inHg';
  visibility: 'm' | 'mi';
  precipitation: 'mm' | 'in';
  relativeHumidity: '%';
  probability: '%';
  cloudBase: 'm' | 'ft';
  elevation: 'm' | 'ft';
}

export type ObservationUnits = Omit<Units, 'probability'>;
export type ForecastUnits = Pick<
  Units,
  'temperature' | 'windSpeed' | 'relativeHumidity' | 'probability' | 'elevation'
>;
export interface PlaceUnits {
  distance: 'km' | 'mi';
  bearing: 'deg';
  elevation: Units['elevation'];
  age: 'min';
}

export type UnitSystem = 'si' | 'us';

/**
 * Converts stored values (degC, km/h, Pa, m, mm, %) to a system of units, and rounds them only once. null
 * stays null.
 */
export interface Converter {
  units: Units;
  temperature: Convert;
  windSpeed: Convert;
  windDirection: Convert;
  pressure: Convert;
  visibility: Convert;
  precipitation: Convert;
  percentage: Convert;
  cloudBase: Convert;
  elevation: Convert;
}

type Convert = (value: number | null) => number | null;

const converters: Record<UnitSystem, Converter> = {
  si: {
    units: {
      temperature: 'degC',
      windSpeed: 'km/h',
      windDirection: 'deg',
      pressure: 'Pa',
      visibility: 'm',
      precipitation: 'mm',
      relativeHumidity: '%',
      probability: '%',
      cloudBase: 'm',
      elevation: 'm',
    },
    temperature: rounded(1),
    windSpeed: rounded(1),
    windDirection: rounded(0),
    pressure: rounded(0),
    visibility: rounded(0),
    precipitation: rounded(1),
    percentage: rounded(0),
    cloudBase: rounded(0),
    elevation: rounded(0),
  },
  us: {
    units: {
      temperature: 'degF',
      windSpeed: 'mph',
      windDirection: 'deg',
      pressure: 'inHg',
      visibility: 'mi',
      precipitation: 'in',
      relativeHumidity: '%',
      probability: '%',
      cloudBase: 'ft',
      elevation: 'ft',
    },
    temperature: rounded(1, fahrenheit),
    windSpeed: rounded(1, milesPerHour),
    windDirection: rounded(0),
    pressure: rounded(2, (pascal) => pascal / 3386.389),
    visibility: rounded(2, (metres) => metres / 1609.344),
    precipitation: rounded(2, (millimetres) => millimetres / 25.4),
    percentage: rounded(0),
    cloudBase: rounded(0, (metres) => metres / 0.3048),
    elevation: rounded(0, (metres) => metres / 0.3048),
  },
};

export function converterOf(system: UnitSystem): Converter {
  return converters[system];
}

export function observationUnits({ units }: Converter): ObservationUnits {
  const { temperature, windSpeed, windDirection, pressure, visibility } = units;
  const { precipitation, relativeHumidity, cloudBase, elevation } = units;
  return {
    temperature,
    windSpeed,
    windDirection,
    pressure,
    visibility,
    precipitation,
    relativeHumidity,
    cloudBase,
    elevation,
  };
}

export function forecastUnits({ units }: Converter): ForecastUnits {
  const { temperature, windSpeed, relativeHumidity, probability, elevation } = units;
  return { temperature, windSpeed, relativeHumidity, probability, elevation };
}

const kilometresInMile = 1.609344;

export function fahrenheit(celsius: number): number {
  return (celsius * 9) / 5 + 32;
}

export function celsius(fahrenheit: number): number {
  return ((fahrenheit - 32) * 5) / 9;
}

export function milesPerHour(kilometresPerHour: number): number {
  return kilometresPerHour / kilometresInMile;
}

const toThousandths = rounded(3);

/** Converts a distance in kilometers to kilometers or miles, rounded to three decimals. */
export function distanceIn(system: UnitSystem, kilometres: number): number {
  return toThousandths(system === 'si' ? kilometres : kilometres / kilometresInMile) ?? 0;
}

function rounded(digits: number, convert: (value: number) => number = (value) => value): Convert {
  // Add 0 to turn -0 into 0.
  return (value) => (value === null ? null : Number(convert(value).toFixed(digits)) + 0);
}
