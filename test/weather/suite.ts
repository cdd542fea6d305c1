import { readFile } from 'node:fs/promises';
import type { Test } from 'tap';
import { type Clock, systemClock } from '../../src/core/lib/clock.ts';
import type { Reading } from '../../src/weather/family.ts';
import { createTables } from '../../src/weather/feed/tables/create-tables.ts';
import type { WritableDatabase } from '../../src/weather/feed/tables/upsert.ts';
import type { QueryOf, WeatherReader } from '../../src/weather/reader.ts';
import { type ObservationData } from '../../src/weather/records/observation-fields.ts';
import { countRows, feed, feedAll } from './feed-samples.ts';

export interface Driver {
  /** An empty database, open for writing. */
  openTarget(): Promise<WritableDatabase>;
  openReader(clock: Clock): Promise<WeatherReader>;
}

export const anyAlert: QueryOf<'alerts'> = {
  zone: [],
  area: null,
  office: null,
  severity: [],
  event: [],
  limit: 100,
};
const units = 'si';

export function clockAt(text: string): Clock {
  return { ...systemClock, now: () => new Date(text), monotonic: () => 0, sleep: () => Promise.resolve() };
}

/** Of one station, or of any. */
async function newestOf(
  reader: WeatherReader,
  query: QueryOf<'observations'>,
): Promise<Reading<ObservationData>> {
  const { data, ...rest } = await reader.observations(query);
  if (data !== null && 'observations' in data) throw new TypeError('several stations were asked for');
  return { data, ...rest };
}

/** The behavior that all drivers share: writes with the feeder, closes, and reads back. */
export async function readerSuite(t: Test, driver: Driver): Promise<void> {
  const writing = async (work: (target: WritableDatabase) => Promise<void>): Promise<void> => {
    const target = await driver.openTarget();
    try {
      await work(target);
    } finally {
      await target.close();
    }
  };
  const reading = async (now: string, work: (reader: WeatherReader) => Promise<void>): Promise<void> => {
    const reader = await driver.openReader(clockAt(now));
    try {
      await work(reader);
    } finally {
      await reader.close();
    }
  };

  await writing(async (target) => {
    await createTables(target);
    // Every sample passes the checks that a feeder may require.
    await target.run(await readFile('schemas/weather-checks.sql', 'utf8'));
    await t.rejects(
      target.run("insert into alert_runs (fetched_at) values ('infinity')"),
      /alert_runs_possible/,
    );
  });

  await t.test('without a record there is no data', (t) =>
    reading('2026-01-20T18:00:00Z', async (reader) => {
      const nothing = { data: null, lastModified: null };
      t.same(await reader.observations({ station: [], units }), nothing);
      t.same(await reader.observations({ station: ['KNYC'], units }), nothing);
      t.same(await reader.currentConditions({ station: [], maxAge: 90, units }), nothing);
      t.same(await reader.alerts(anyAlert), nothing);
      t.same(await reader.hourlyForecasts({ location: null, hours: 48, units }), nothing);
      t.same(await reader.narrativeForecasts({ location: null, periods: 14, units }), nothing);
      t.same(await reader.forecastDiscussions({ office: null }), nothing);
      t.same(await reader.weatherStories({ office: null, limit: 7 }), nothing);
      t.same(
        await reader.convectiveOutlooks({ day: 1, hazard: [], select: 'issued', geometry: true }),
        nothing,
      );
      t.same(await reader.outlookDiscussions({ day: 1 }), nothing);
    }),
  );

  await t.test('a poll without alerts is data with an empty list', async (t) => {
    await writing((target) => feed(target, 'alerts/active_empty_20260119.json'));
    await reading('2026-01-19T06:00:00Z', async (reader) => {
      const { data, lastModified } = await reader.alerts(anyAlert);
      t.same(data, {
        fetchedAt: '2026-01-19T05:02:08Z',
        sourceUpdatedAt: '2026-01-19T05:02:08Z',
        timeZone: 'UTC',
        total: 0,
        unplaced: null,
        alerts: [],
        tests: [],
      });
      t.equal(lastModified, null);
    });
  });

  await t.test('loading every sample twice has the effect of loading it once', (t) =>
    writing(async (target) => {
      const first = await feedAll(target);
      t.same(first, { loaded: 39, refused: 10 });
      const rows = await countRows(target);
      t.same(await feedAll(target), first);
      t.same(await countRows(target), rows);
    }),
  );

  await t.test('observations', (t) =>
    reading('2026-06-03T00:00:00Z', async (reader) => {
      const { data, lastModified } = await newestOf(reader, { station: ['KNYC'], units: 'us' });
      t.match(data, {
        station: { id: 'KNYC', name: 'New York City, Central Park' },
        observedAt: '2026-01-20T17:51:00Z',
        timeZone: 'America/New_York',
        textDescription: 'Clear',
        temperature: 19,
        dewpoint: null,
        windSpeed: 9.2,
        windGust: 25.3,
        altimeter: 30.31,
        visibility: 10,
        clouds: [{ amount: 'CLR', base: null }],
        quality: { temperature: 'V', windGust: 'S', dewpoint: 'Z', temperatureMax24h: null },
        units: { temperature: 'degF', pressure: 'inHg' },
      });
      t.equal(lastModified?.toISOString(), '2026-01-20T17:51:00.000Z');

      const rain = await newestOf(reader, { station: ['KBFI'], units });
      t.equal(rain.data?.rawMessage, null, 'an empty message is omitted');
      t.same(
        rain.data?.presentWeather.map(({ raw }) => raw),
        ['-RA', 'BR'],
      );
      t.same(rain.data?.clouds, [
        { amount: 'BKN', base: 549 },
        { amount: 'OVC', base: 823 },
      ]);
      t.match((await newestOf(reader, { station: ['PHNL'], units })).data, {
        temperature: null,
        windSpeed: null,
        visibility: 16090,
      });
      t.match(
        (await newestOf(reader, { station: ['KBHM'], units })).data,
        { dewpoint: -5.6 },
        'no binary noise',
      );
      t.equal((await newestOf(reader, { station: [], units })).data?.station.id, 'PABR', 'the newest of any');
      await t.rejects(newestOf(reader, { station: ['XXXX'], units }), {
        code: 'invalid_parameter',
        message: /"station" must name .* unknown: XXXX/,
      });
    }),
  );

  await t.test('current conditions', async (t) => {
    await reading('2026-01-20T18:45:00Z', async (reader) => {
      const query = { station: ['KNYC', 'PAMR'], maxAge: 90, units } as const;
      const { data } = await reader.currentConditions(query);
      t.match(data, {
        station: { id: 'KNYC' },
        temperature: -7.2,
        windChill: -13.2,
        feelsLike: -13.2,
        feelsLikeMethod: 'wind_chill',
        dewpoint: -10,
        source: {
          temperature: { station: 'KNYC' },
          dewpoint: { station: 'PAMR', observedAt: '2026-01-20T18:40:00Z' },
        },
      });
      const any = await reader.currentConditions({ ...query, station: [] });
      t.match(any.data, { station: { id: 'PAMR' }, windSpeed: 0, windDirection: null });
    });
    await reading('2030-01-01T00:00:00Z', async (reader) => {
      t.equal((await reader.currentConditions({ station: ['KNYC'], maxAge: 90, units })).data, null);
    });
  });

  await t.test('alerts', async (t) => {
    await writing((target) => target.run("delete from alert_runs where fetched_at > '2025-12-16'"));
    await reading('2025-12-15T22:00:00Z', async (reader) => {
      const all = await reader.alerts(anyAlert);
      const alerts = all.data?.alerts ?? [];
      t.equal(all.data?.total, alerts.length);
      t.ok(alerts.length > 5);
      t.ok(
        alerts.some(({ endsAt }) => endsAt === null),
        'an event without an end is in force until its message expires',
      );
      t.ok(
        alerts.some(({ onsetAt, expiresAt }) => onsetAt !== null && onsetAt > expiresAt),
        'a message that expires before the onset is in force',
      );
      t.ok(alerts.every(({ endsAt, expiresAt }) => (endsAt ?? expiresAt) > '2025-12-15T22:00:00Z'));
      const ranks = alerts.map(({ severity }) =>
        ['Extreme', 'Severe', 'Moderate', 'Minor', 'Unknown'].indexOf(severity),
      );
      t.same(
        ranks,
        [...ranks].sort((a, b) => a - b),
      );
      const one = await reader.alerts({ ...anyAlert, limit: 1 });
      t.equal(one.data?.total, alerts.length);
      t.equal(one.data?.alerts.length, 1);

      const severeFlood = {
        ...anyAlert,
        event: ['flash flood warning'],
        severity: ['Severe'],
        limit: 5,
      } as const;
      const flood = { ...severeFlood, zone: ['WAC033'] };
      const found = await reader.alerts(flood);
      t.match(found.data?.alerts, [
        { event: 'Flash Flood Warning', office: 'SEW', zones: ['WAC033'], geometry: { type: 'Polygon' } },
      ]);
      t.ok((found.data?.alerts[0]?.references.length ?? 0) >= 2);
      t.equal((await reader.alerts({ ...severeFlood, office: 'SEW' })).data?.total, 1);
      t.equal((await reader.alerts({ ...severeFlood, area: 'WA' })).data?.total, 1);
      t.equal((await reader.alerts({ ...severeFlood, area: 'TX' })).data?.total, 0);
    });
    await writing((target) => target.run("delete from alert_runs where fetched_at > '2025-11-26'"));
    await reading('2025-11-25T23:00:00Z', async (reader) => {
      const { data } = await reader.alerts(anyAlert);
      t.match(
        data?.alerts,
        [{ event: 'Tornado Watch', messageType: 'Update' }],
        'a partial cancel leaves the watch, and its first issue is replaced',
      );
      t.equal(data?.alerts[0]?.zones.length, 7);
    });
    await writing((target) => target.run("delete from alert_runs where fetched_at > '2022-11-07'"));
    await reading('2022-11-06T10:00:00Z', async (reader) => {
      const { data } = await reader.alerts(anyAlert);
      t.match(
        data?.alerts,
        [{ event: 'Winter Storm Warning', sentAt: '2022-11-06T09:15:00Z', endsAt: null, office: 'STO' }],
        '01:15 of the repeated hour is one instant',
      );
    });
  });

  await t.test('forecasts', (t) =>
    reading('2026-01-20T18:00:00Z', async (reader) => {
      const hourly = await reader.hourlyForecasts({ location: 'OKX/33,35', hours: 2, units: 'us' });
      t.match(hourly.data, {
        location: 'OKX/33,35',
        gridX: 33,
        latitude: 40.7145,
        longitude: -74.013,
        timeZone: 'America/New_York',
        validFrom: '2026-01-20T18:00:00Z',
        elevation: 7,
      });
      t.match(hourly.data?.periods, [
        {
          number: 1,
          startsAt: '2026-01-20T18:00:00Z',
          temperature: 21,
          dewpoint: 6,
          windSpeedMin: 18,
          windSpeedMax: 18,
          windDirection: 'W',
        },
        { number: 2 },
      ]);
      t.notOk('detailedForecast' in (hourly.data?.periods[0] ?? {}));
      const narrative = await reader.narrativeForecasts({ location: 'AER/143,236', periods: 1, units });
      t.match(narrative.data?.periods, [
        { name: 'Today', windDirection: null, temperature: -2.8, precipitationProbability: 4 },
      ]);
      t.equal(
        (await reader.narrativeForecasts({ location: null, periods: 14, units })).data?.location,
        'AER/143,236',
      );
      t.equal((await reader.hourlyForecasts({ location: 'AER/143,236', hours: 2, units })).data, null);
    }),
  );

  await t.test('forecast discussions', (t) =>
    reading('2026-01-20T18:00:00Z', async (reader) => {
      const { data } = await reader.forecastDiscussions({ office: 'PSR' });
      t.match(data, {
        issuedAt: '2018-03-21T12:16:00Z',
        wmoHeader: 'FXUS65 KPSR 211216 AAA',
        awipsId: 'AFDPSR',
        correction: 'AAA',
      });
      t.same(
        data?.sections.slice(0, 3).map(({ heading }) => heading),
        ['UPDATE', 'SYNOPSIS', 'DISCUSSION'],
      );
      t.equal(data?.sections[0]?.body, 'Updated aviation and fire weather discussions.');
      t.equal((await reader.forecastDiscussions({ office: null })).data?.office, 'OKX');
      t.equal((await reader.forecastDiscussions({ office: 'BOX' })).data, null);
    }),
  );

  await t.test('weather stories', (t) =>
    reading('2026-09-13T00:00:00Z', async (reader) => {
      const { data } = await reader.weatherStories({ office: 'MKX', limit: 7 });
      t.equal(data?.stories.length, 2);
      t.match(data?.stories[1]?.altText, /1"\+ of rainfall & heavy rain/);
      t.equal((await reader.weatherStories({ office: 'MKX', limit: 1 })).data?.stories.length, 1);
      t.same((await reader.weatherStories({ office: 'BGM', limit: 7 })).data?.stories, []);
      const old = await reader.weatherStories({ office: 'IWX', limit: 20 });
      t.equal(old.data?.stories.length, 5);
      t.ok(
        old.data?.stories.some(({ startsAt, endsAt }) => startsAt === endsAt),
        'a window of zero length stays',
      );
      t.equal((await reader.weatherStories({ office: 'ZZZ', limit: 7 })).data, null);
    }),
  );

  await t.test('convective outlooks', (t) =>
    reading('2026-05-17T15:00:00Z', async (reader) => {
      const query = { day: 1, hazard: [], select: 'issued', geometry: true } as const;
      const { data } = await reader.convectiveOutlooks(query);
      t.match(data, {
        day: 1,
        issuedAt: '2026-05-17T06:10:00Z',
        validFrom: '2026-05-17T12:00:00Z',
        maximumCategory: 'ENH',
        forecaster: 'Guyer/Squitieri',
      });
      t.same(
        data?.areas.filter(({ kind }) => kind === 'category').map(({ label }) => label),
        ['TSTM', 'MRGL', 'SLGT', 'ENH'],
      );
      const tornado = await reader.convectiveOutlooks({ ...query, hazard: ['tornado'], geometry: false });
      t.same(
        tornado.data?.areas.map(({ kind, label, probability, geometry }) => [
          kind,
          label,
          probability,
          geometry,
        ]),
        [
          ['intensity', 'CIG1', null, null],
          ['probability', '0.02', 2, null],
          ['probability', '0.05', 5, null],
          ['probability', '0.10', 10, null],
          ['probability', '0.15', 15, null],
        ],
        'an intensity and a probability with the same dn stay separate',
      );
      t.equal(tornado.data?.maximumCategory, 'ENH', 'included although the hazards omit it');
      t.match((await reader.convectiveOutlooks({ ...query, day: 4 })).data?.areas, [
        { hazard: 'any_severe', probability: 15 },
      ]);
      t.same((await reader.convectiveOutlooks({ ...query, day: 8 })).data?.areas, [], 'a run without areas');
      t.match((await reader.outlookDiscussions({ day: 1 })).data, {
        issuedAt: '2026-05-08T00:36:00Z',
        headline: /NO SEVERE/,
        text: /\u0001|\u0003/,
      });
      t.match((await reader.outlookDiscussions({ day: 6 })).data, {
        issuedAt: '2018-03-31T09:06:00Z',
        validFrom: '2018-04-05T12:00:00Z',
      });
    }),
  );

  await t.test(
    'selects the outlook valid now, even if the last one issued begins later or was shortened',
    async (t) => {
      await writing((target) =>
        target.run(`insert into outlook_runs (day, issued_at, valid_from, valid_until) values
        (1, '2026-05-17T16:30Z', '2026-05-17T16:30Z', '2026-05-18T12:00Z'), (1, '2026-05-18T06:00Z', '2026-05-18T12:00Z', '2026-05-19T12:00Z');
        insert into outlooks (run_id, hazard, label, kind, rank, geometry)
        select run_id, 'categorical', 'NONE', 'category', 0, '{"type":"MultiPolygon","coordinates":[]}' from outlook_runs where issued_at >= '2026-05-17T16:30Z'`),
      );
      const query = { day: 1, hazard: [], select: 'effective', geometry: false } as const;
      await reading('2026-05-17T15:00:00Z', async (reader) => {
        t.equal((await reader.convectiveOutlooks(query)).data?.issuedAt, '2026-05-17T06:10:00Z');
      });
      await reading('2026-05-18T07:00:00Z', async (reader) => {
        t.equal(
          (await reader.convectiveOutlooks({ ...query, select: 'issued' })).data?.issuedAt,
          '2026-05-18T06:00:00Z',
        );
        const { data, otherIssues } = await reader.convectiveOutlooks({ ...query, hazard: ['categorical'] });
        t.match(
          otherIssues,
          [{ field: 'tornado' }, { field: 'wind' }, { field: 'hail' }],
          'not yet issued again',
        );
        t.match(data, {
          issuedAt: '2026-05-17T16:30:00Z',
          validFrom: '2026-05-17T16:30:00Z',
          areas: { length: 0 },
        });
      });
    },
  );

  await t.test('keeps text outside ASCII, and text that looks like markup', async (t) => {
    await writing((target) =>
      target.run(`insert into weather_story_runs (office, fetched_at) values ('TST', '2026-01-01T00:00Z');
        insert into weather_stories (run_id, position, title, description, starts_at, ends_at)
        select run_id, 1, 'Óbidos – 30 °C ☀', '<b>&amp;</b> "quoted"', '2026-01-01T00:00Z', '2026-01-02T00:00Z' from weather_story_runs where office = 'TST'`),
    );
    await reading('2026-01-01T00:00:00Z', async (reader) => {
      t.match((await reader.weatherStories({ office: 'TST', limit: 1 })).data?.stories, [
        { title: 'Óbidos – 30 °C ☀', description: '<b>&amp;</b> "quoted"' },
      ]);
    });
  });
}
