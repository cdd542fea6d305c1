import t from 'tap';
import { currentConditions } from '../../../src/weather/records/combined-conditions.ts';
import type { ObservationRow } from '../../../src/weather/records/observation-record.ts';

const now = new Date('2026-01-20T18:00:00Z');
const window = { now, maxAgeMinutes: 90 };
const minutes = (count: number): Date => new Date(now.getTime() + count * 60_000);

function observation(station: string, at: number, values: Partial<ObservationRow> = {}): ObservationRow {
  return {
    station: {
      stationId: station,
      name: station,
      latitudeDeg: 0,
      longitudeDeg: 0,
      elevationM: null,
      timeZone: 'UTC',
    },
    observedAt: minutes(at),
    receivedAt: minutes(at),
    textDescription: null,
    rawMessage: null,
    qc: {},
    presentWeather: [],
    clouds: [],
    temperatureC: null,
    dewpointC: null,
    relativeHumidityPct: null,
    windDirectionDeg: null,
    windSpeedKmh: null,
    windGustKmh: null,
    altimeterPa: null,
    seaLevelPressurePa: null,
    visibilityM: null,
    temperatureMax24hC: null,
    temperatureMin24hC: null,
    precipitation1hMm: null,
    precipitation3hMm: null,
    precipitation6hMm: null,
    heatIndexC: null,
    windChillC: null,
    ...values,
  };
}

t.test('the window excludes its start and extends five minutes ahead', async (t) => {
  const at = (when: number): unknown =>
    currentConditions([observation('A', when, { temperatureC: 1 })], ['A'], window)?.values.temperatureC ??
    null;
  t.equal(at(-90), null);
  t.equal(at(-89), 1);
  t.equal(at(5), 1);
  t.equal(at(6), null);
});

t.test(
  'each field has the newest usable value, and the order of stations has priority over age',
  async (t) => {
    const rows = [
      observation('B', -1, { temperatureC: 9, visibilityM: 9000 }),
      observation('A', -60, { temperatureC: 1, altimeterPa: 101_000 }),
      observation('A', -30, { temperatureC: 2 }),
    ];
    const found = currentConditions(rows, ['A', 'B'], window);
    t.match(found?.values, { temperatureC: 2, altimeterPa: 101_000, visibilityM: 9000 });
    t.equal(found?.station.stationId, 'A');
    t.same(found?.observedAt, minutes(-1));
    t.equal(currentConditions(rows, ['B', 'A'], window)?.values.temperatureC, 9);
  },
);

t.test('skips values that failed their checks or are impossible', async (t) => {
  const older = observation('A', -20, {
    temperatureC: 5,
    dewpointC: 3,
    windSpeedKmh: 10,
    altimeterPa: 100_000,
  });
  for (const values of [
    { temperatureC: 148.89 },
    { temperatureC: 6, qc: { temperature_c: 'X' } },
    { temperatureC: 6, qc: { temperature_c: 'Q' } },
    { temperatureC: 6, qc: { temperature_c: 'B' } },
  ])
    t.equal(currentConditions([older, observation('A', -1, values)], ['A'], window)?.values.temperatureC, 5);
  t.equal(
    currentConditions(
      [older, observation('A', -1, { temperatureC: 6, qc: { temperature_c: 'V' } })],
      ['A'],
      window,
    )?.values.temperatureC,
    6,
  );
  const bad = observation('A', -1, {
    temperatureC: 4,
    dewpointC: 5.5,
    windSpeedKmh: 411,
    altimeterPa: 84_000,
  });
  t.match(currentConditions([older, bad], ['A'], window)?.values, {
    temperatureC: 4,
    dewpointC: 3,
    windSpeedKmh: 10,
    altimeterPa: 100_000,
  });
});

t.test('related values come from one observation', async (t) => {
  const rows = [
    observation('A', -20, {
      windSpeedKmh: 20,
      windGustKmh: 40,
      windDirectionDeg: 90,
      textDescription: 'Rain',
      clouds: [{ amount: 'OVC', base: 100 }],
    }),
    observation('A', -1, {
      windSpeedKmh: 10,
      clouds: [{ amount: 'CLR', base: null }],
      precipitation1hMm: 1,
    }),
  ];
  const found = currentConditions(rows, ['A'], window);
  t.match(found?.values, {
    windSpeedKmh: 10,
    windGustKmh: null,
    windDirectionDeg: null,
    precipitation1hMm: 1,
    precipitation3hMm: null,
  });
  t.equal(found?.sky?.textDescription, null);
  t.same(found?.sky?.clouds, [{ amount: 'CLR', base: null }]);
});

t.test('calm wind has no direction, and a gust is at least the speed', async (t) => {
  const wind = (values: Partial<ObservationRow>): unknown =>
    currentConditions([observation('A', -1, values)], ['A'], window)?.values;
  t.match(wind({ windSpeedKmh: 0, windDirectionDeg: 250 }), { windSpeedKmh: 0, windDirectionDeg: null });
  t.match(wind({ windSpeedKmh: 20, windGustKmh: 15 }), { windGustKmh: null });
  t.match(wind({ windSpeedKmh: 20, windGustKmh: 25, windDirectionDeg: 10 }), {
    windGustKmh: 25,
    windDirectionDeg: 10,
  });
});

t.test('derived values use inputs of one station, at most an hour apart', async (t) => {
  const chill = (station: string, at: number): number | null | undefined =>
    currentConditions(
      [observation('A', -1, { temperatureC: -10 }), observation(station, at, { windSpeedKmh: 30 })],
      ['A', 'B'],
      window,
    )?.values.windChillC;
  t.ok((chill('A', -61) ?? 0) < -10);
  t.equal(chill('A', -62), null);
  t.equal(chill('B', -1), null);
  const dry = currentConditions(
    [observation('A', -1, { temperatureC: 20, dewpointC: 10, relativeHumidityPct: 99 })],
    ['A'],
    window,
  );
  t.ok(Math.abs((dry?.values.relativeHumidityPct ?? 0) - 52.5) < 0.5, 'computed rather than reported');
  t.same(dry?.feelsLike, { value: 20, method: 'temperature' });
});

t.test('an observation without values still counts, and no observation is null', async (t) => {
  const empty = currentConditions([observation('A', -1)], ['A'], window);
  t.equal(empty?.station.stationId, 'A');
  t.ok(Object.values(empty?.values ?? {}).every((value) => value === null));
  t.equal(currentConditions([observation('C', -1, { temperatureC: 1 })], ['A'], window), null);
});
