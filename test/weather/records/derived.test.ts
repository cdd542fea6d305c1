import { readFileSync } from 'node:fs';
import t from 'tap';
import {
  feelsLike,
  heatIndex,
  relativeHumidity,
  windChill,
} from '../../../src/weather/records/combined-conditions.ts';

interface Oracle {
  station: string;
  temperature_degc: number;
  dewpoint_degc: number;
  relative_humidity_percent: number;
  heat_index_degc: number;
}

const oracles = JSON.parse(
  readFileSync('test/fixtures/weather/observations/derived_value_oracles.json', 'utf8'),
) as Oracle[];

/** To 13 digits, which a double keeps whatever the order of operations. */
const digits = (value: number): string => value.toPrecision(13);

t.test('humidity and heat index match api.weather.gov in every digit', async (t) => {
  t.equal(oracles.length, 8);
  for (const oracle of oracles) {
    const humidity = relativeHumidity(oracle.temperature_degc, oracle.dewpoint_degc);
    t.equal(digits(humidity), digits(oracle.relative_humidity_percent), oracle.station);
    t.equal(
      digits(heatIndex(oracle.temperature_degc, humidity)),
      digits(oracle.heat_index_degc),
      oracle.station,
    );
  }
});

t.test('wind chill matches api.weather.gov in 12 digits', async (t) => {
  for (const [temperature, wind, chill] of [
    [-13.3, 16.56, -21.199278655822113],
    [-7.2, 14.76, -13.215182875945834],
    [9, 9.252, 7.589624668772778],
    [-3, 14.832, -8.060301838118333],
  ] as const)
    t.equal(windChill(temperature, wind)?.toPrecision(12), chill.toPrecision(12));
});

t.test('each formula applies only in its range', async (t) => {
  t.equal(windChill(10.1, 30), null, 'above 50 °F');
  t.equal(windChill(-10, 4.8), null, 'calm');
  t.same(feelsLike(15, 20, 50), { value: 15, method: 'temperature' });
  t.same(feelsLike(0, null, 50), { value: 0, method: 'temperature' });
  t.equal(feelsLike(0, 20, 50).method, 'wind_chill');
  t.equal(feelsLike(30, 20, 50).method, 'heat_index');
  t.equal(feelsLike(30, 20, null).method, 'temperature');
  t.ok(heatIndex(40, 10) < 40, 'dry air');
});
