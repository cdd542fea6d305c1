/** The unit of each quantity; a quantity that a family does not have is not named there. */
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
