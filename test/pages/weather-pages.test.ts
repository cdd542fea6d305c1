import t from 'tap';
import { startChromium } from '../services/chromium.ts';
import { startWeatherPages } from './weather-pages.ts';
import { badDay, hostile, hostileWorld, weatherWorld } from './weather-world.ts';

const base = await startWeatherPages(t, { world: hostileWorld });

async function pageAt(path: string): Promise<string> {
  const response = await fetch(base + path, { headers: { accept: 'text/html' } });
  t.equal(response.status, 200, path);
  return response.text();
}

t.test('text of alerts, names and messages is never markup', async (t) => {
  for (const path of [
    'weather/',
    'weather/?state=NY&q=script',
    'weather/stations/KNYC',
    'weather/stations/KALB',
  ]) {
    const html = await pageAt(path);
    t.notMatch(html, /<script(?! type="module" src=)|<img/i, path);
    t.match(html, /&lt;script&gt;alert/, `${path} shows them`);
  }
  const browser = await startChromium();
  t.teardown(() => browser.close());
  const page = await browser.newPage();
  const said: string[] = [];
  page.on('dialog', (dialog) => {
    said.push(dialog.message());
    void dialog.dismiss();
  });
  await page.goto(`${base}weather/stations/KALB`);
  t.equal(await page.locator('h1').textContent(), hostile, 'a name is text');
  t.equal(await page.locator('main :is(script, img)').count(), 0);
  t.same(said, []);
});

t.test('without script everything is there, and the map links to states and stations', async (t) => {
  const browser = await startChromium();
  t.teardown(() => browser.close());
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto(base);
  t.equal(page.url(), `${base}weather/`, 'the base path redirects a browser to the map');
  await page.getByLabel('State').selectOption('NY');
  await page.getByRole('button', { name: 'Find' }).click();
  t.match(page.url(), /[?&]state=NY$/);
  await page.getByRole('link', { name: 'New York City, Central Park' }).last().click();
  t.match(await page.locator('.now').textContent(), /29.°F/, 'whole degrees, as on the map');
  t.match(
    await page.locator('.day summary').first().textContent(),
    /^Today .*High .*°.*Low .*°.*Chance of precipitation \d+%.*Wind up to/,
  );
  t.match(
    await page.getByRole('img').getAttribute('aria-label'),
    /^The next 48 hours: .*°F to .*°F, chance of/,
  );
  t.match(await page.locator('.narrative').textContent(), /Tonight/);
  await page.setViewportSize({ width: 360, height: 900 });
  const chart = page.getByRole('img', { name: /^The next 24 hours:/ });
  t.ok((await chart.boundingBox())!.width <= 328, 'a phone has a separate chart, which does not scroll');
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.getByRole('link', { name: 'Show °C' }).click();
  t.match(await page.locator('.now').textContent(), /−2.°C/);
  await page.goto(`${base}weather/`);
  await page.getByRole('searchbox', { name: 'Station' }).fill('buff');
  await page.getByRole('button', { name: 'Find' }).click();
  t.ok(await page.getByRole('link', { name: 'Buffalo' }).first().isVisible());
});

t.test('a phone shows the part of the country that has a risk, and a laptop shows all of it', async (t) => {
  const browser = await startChromium();
  t.teardown(() => browser.close());
  const page = await browser.newPage({ viewport: { width: 360, height: 900 } });
  await page.goto(`${base}weather/?day=1`);
  const map = page.locator('.map > svg').first();
  const share = async (): Promise<number> => {
    const area = await page.locator('.areas path').last().boundingBox();
    return area!.width / (await map.boundingBox())!.width;
  };
  t.ok((await share()) > 0.3, `${await share()} of the width of a phone`);
  const cut = await page.evaluate(`[...document.querySelectorAll('.labels.phone text')]
    .map((label) => [label.getBoundingClientRect(), label.textContent])
    .filter(([{ left, right, top, bottom }]) => {
      const map = document.querySelector('.map > svg').getBoundingClientRect();
      return left < map.left || right > map.right || top < map.top || bottom > map.bottom;
    })
    .map(([, text]) => text)`);
  t.same(cut, [], 'the edge cuts off no state');
  await page.setViewportSize({ width: 1280, height: 900 });
  t.ok((await share()) < 0.2, `${await share()} of the width of a laptop`);
});

t.test('a table of hours names its units once', async (t) => {
  const html = await pageAt('weather/stations/KNYC');
  t.match(html, />Temperature \(°F\)<.*>Wind \(mph\)</s);
  const winds = [...html.matchAll(/<td class="wind number">([^<]*)</g)].map(([, wind]) => wind);
  t.ok(winds.length > 0);
  t.same(
    winds.filter((wind) => !/^[NESW]+\u00a0\d+$/.test(wind ?? '')),
    [],
  );
});

t.test("draws alerts at their outlines or their zones' outlines, in the service's colors", async (t) => {
  const html = await pageAt('weather/');
  for (const [event, colour] of [
    ['Tornado Warning', '#ff0000'],
    ['Winter Storm Warning', '#ff69b4'],
    ['Wind Advisory', '#d2b48c'],
  ] as const)
    t.match(html, new RegExp(`d="M[^"]+Z" fill="${colour}" stroke="${colour}"><title>${event}<`), event);
  const outlook = await pageAt('weather/?day=1');
  for (const [name, colour] of [
    ['Thunderstorms, not severe', '#C1E9C1'],
    ['Slight Risk', '#FFE066'],
  ] as const)
    t.match(outlook, new RegExp(`d="M[^"]+Z" fill="${colour}" stroke="${colour}"><title>${name}<`), name);
  t.equal(html.match(/class="place extreme \w+"[^>]*>Tornado Warning</g)?.length, 2, 'once for each size');
  t.match(html, /<span class="area">Mississippi: Lauderdale; Kemper; Neshoba/);
  t.equal(html.match(/<strong>Tornado Warning</g)?.length, 1, 'an extreme alert is listed once');
  t.match(html, />Extreme alert<.*<strong>Tornado Warning<.*>Other alerts \(.*class="card flush map"/s);
  t.match(await pageAt('weather/?state=NY'), /Winter Storm Warning/);
  t.notMatch(await pageAt('weather/?state=NY'), /Tornado Warning/, 'a state has its own');
});

t.test('selected units are remembered, and caches keep both pages separate', async (t) => {
  const temperature = async (path: string, cookie = ''): Promise<string> => {
    const response = await fetch(base + path, { headers: { accept: 'text/html', cookie } });
    t.match(response.headers.get('vary'), /Cookie/);
    return /class="temperature">([^<]*)</.exec(await response.text())?.[1] ?? '';
  };
  const chosen = await fetch(`${base}weather/stations/KNYC?units=si`);
  const [cookie = ''] = chosen.headers.getSetCookie();
  t.match(cookie, /^waybill_units=si; Max-Age=31536000; Path=\/weather\/; HttpOnly; SameSite=Lax$/);
  t.equal(chosen.headers.get('cache-control'), 'private, no-cache', 'no shared cache stores the cookie');
  const kept = cookie.split(';', 1)[0];
  t.match(await temperature('weather/stations/KNYC', kept), /°C$/);
  t.match(await temperature('weather/stations/KNYC'), /°F$/);
  t.match(await temperature('weather/stations/KNYC?units=us', kept), /°F$/, 'the URL takes precedence');
  const map = await (await fetch(`${base}weather/`, { headers: { cookie: kept ?? '' } })).text();
  t.match(map, /href="\/weather\/\?units=us"/, 'a link changes them back');
  t.equal((await fetch(`${base}weather/`)).headers.getSetCookie().length, 0, 'none without a selection');
});

t.test('shows difficult data correctly: partial, across 180°, without a location, tests', async (t) => {
  const bad = await startWeatherPages(t, { world: weatherWorld + badDay });
  const page = async (path: string): Promise<string> => (await fetch(bad + path)).text();
  const meridian = await page('weather/stations/KMEI');
  t.match(
    meridian,
    /High Risk<.*level 5 of 5.*The chance of tornadoes, damaging wind and large hail is not known yet/s,
  );
  t.match(
    meridian,
    /class="alert failure extreme".*>Tornado Warning<.*>Extreme<.*1 alert may apply here, but its exact area is unknown.*class="alert severe maybe".*>Flood Watch<.*Lauderdale; Clarke/s,
  );
  t.match(meridian, /<use href="#icon-thunder"\/><\/svg>.*<span class="sky">Thunderstorm and Rain/);
  const shemya = await page('weather/stations/PASY');
  t.match(shemya, /<span class="area">Western Aleutians</);
  t.notMatch(shemya, /<strong>Where:/, 'the text does not repeat the area');
  t.match(
    shemya,
    /Ends <time [^>]*>Tue 20 Jan 20:00 HAST<\/time> <span class="aside">\(21:00.AKST, in.11.h.40.min\)</,
  );
  t.match(shemya, /Test, not a warning: Tsunami Warning/);
  t.notMatch(shemya, /may apply here/, 'an alert for zones of Mississippi cannot apply in Alaska');
  t.match(
    shemya,
    /The thunderstorm outlook covers only the contiguous states/,
    'SPC outlines only the contiguous states',
  );
  t.match(
    await page('weather/?day=1'),
    /High Risk of severe storms today<.*level 5 of 5.*In parts of Alabama, .*Mississippi, until .*Wed 21 Jan 06:00 CST\..*>High Risk<.*>Alabama<.*>Louisiana<.*>Mississippi<.*The chance of tornadoes, damaging wind and large hail is not known yet\./s,
  );
  t.match(await page('weather/'), /Not on the map, because their areas are unknown: Flood Watch/);
  t.match(
    await page('weather/?day=1&state=AK'),
    /Issued<\/dt><dd class="nowrap">Tue 20 Jan 07:30 AKST/,
    'the time of the state',
  );
});

t.test('stale data is labeled as stale, and never as an absence of alerts', async (t) => {
  const old = await pageAt('weather/stations/KOLD');
  t.match(
    old,
    />No report for 3 days<.*Last report, <time .*>Nearest current reports<.*KSYR">Syracuse<.*>42.mi</s,
  );
  t.notMatch(old, /Albany|Buffalo/, 'stations beyond 150 km are left out');
  const bare = await pageAt('weather/stations/KBUF');
  t.equal(bare.match(/No forecast is available for this place/g)?.length, 1, 'one notice for both forecasts');
  const later = await startWeatherPages(t, { now: '2026-01-23T18:20:00Z' });
  const map = await (await fetch(`${later}weather/`)).text();
  t.match(map, /Alerts shown here are stale: they are 3 days old/);
  t.match(map, /No station has reported in the last three hours/);
  t.notMatch(map, /No alert is in force/);
  const station = await (await fetch(`${later}weather/stations/KNYC`)).text();
  t.match(station, />No report for 3 days</);
  t.match(station, /No station within 150 km \(93 mi\) has a current report/);
  t.match(station, /This hourly forecast is stale: it is 3 days old/);
  t.notMatch(station, /No alert is in force/);
});

t.test('tomorrow has the outlook for tomorrow, and not the one of yesterday for today', async (t) => {
  const pageOf = async (world: string): Promise<string> => {
    const started = await startWeatherPages(t, { world });
    return (await fetch(`${started}weather/?day=2`)).text();
  };
  const whole = await pageOf(weatherWorld);
  t.match(
    whole,
    /Marginal Risk of severe storms tomorrow<.*Valid from<\/dt><dd class="nowrap">Wed 21 Jan 06:00 CST</s,
  );
  const old = `update outlook_runs set issued_at = issued_at - interval '1 day',
    valid_from = valid_from - interval '1 day', valid_until = valid_until - interval '1 day' where day = 2;`;
  t.match(await pageOf(weatherWorld + old), /No outlook is known for this day/);
});

t.test('every risk level lists its states, and a silent station says since when', async (t) => {
  const risks = await pageAt('weather/?day=1');
  t.match(risks, />Marginal Risk<.*>Georgia<.*>Thunderstorms, not severe<.*>Illinois<.*>West Virginia</s);
  t.match(await pageAt('weather/?state=NY'), />Long Silent Field<.*>no report for 3 days</s);
});

t.test('the discussion of the forecast office has headings and paragraphs', async (t) => {
  const html = await pageAt('weather/stations/KNYC');
  t.match(
    html,
    /<h3>Near term <span class="quiet">Through tonight<\/span><\/h3>\s*<p>Snow begins [^<]*\. Temp/,
  );
  t.notMatch(html, /NEAR TERM/);
});

t.test('days have hours with their sky in each row, and later days say how far apart they are', async (t) => {
  const html = await pageAt('weather/stations/KNYC');
  t.equal(html.match(/<caption class="unseen">Every 3 hours</g)?.length, 5);
  t.notMatch(html, /<span class="sky-text"><\/span>/);
});

t.test('answers an invalid request with an error page', async (t) => {
  for (const [path, status, said] of [
    ['weather/?state=New+York', 400, /two letters of a state, such as NY/],
    ['weather/?day=9', 400, /day/],
    ['weather/stations/KZZZ', 404, /No weather station is called <code>KZZZ/],
    ['weather/stations/%3Cb%3E', 404, /No weather station has this name/],
  ] as const) {
    const response = await fetch(base + path, { headers: { accept: 'text/html' } });
    t.equal(response.status, status, path);
    t.match(response.headers.get('content-type'), 'text/html');
    t.match(await response.text(), said, path);
  }
  const post = await fetch(`${base}weather/`, { method: 'POST' });
  t.equal(post.status, 405);
  const plain = await fetch(`${base}weather`, { redirect: 'manual' });
  t.same([plain.status, plain.headers.get('location')], [308, '/weather/']);
});

t.test('a page is small, and a client with the current one gets 304', async (t) => {
  const response = await fetch(`${base}weather/`, { headers: { 'accept-encoding': 'gzip' } });
  const html = await response.text();
  t.ok(html.length < 200_000, `${html.length} characters`);
  const etag = response.headers.get('etag') ?? '';
  const again = await fetch(`${base}weather/`, {
    headers: { 'accept-encoding': 'gzip', 'if-none-match': etag },
  });
  t.equal(again.status, 304);
});
