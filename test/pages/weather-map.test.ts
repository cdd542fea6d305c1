import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import type { Browser, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { type AlertsData } from '../../src/weather/records/family-fields.ts';
import { type ObservationData } from '../../src/weather/records/observation-fields.ts';
import { startChromium } from '../services/chromium.ts';
import { startWeather } from '../weather/api/weather-harness.ts';
import { readerThat } from '../weather/api/weather-reader-stub.ts';
import { clockAt } from '../weather/suite.ts';

const leaflet = createRequire(import.meta.url).resolve('leaflet/dist/leaflet.js');
const html = `<!doctype html><title>Map</title><link rel="icon" href="data:,"><link rel="stylesheet" href="leaflet.css">
<div id="map" style="width: 900px; height: 600px"></div>
<script src="leaflet.js"></script>
<script>
  const map = L.map('map', { center: [45, -110], zoom: 2 });
  const seen = [];
  const pointToLayer = (feature, place) => L.circleMarker(place);
  const onEachFeature = (feature, layer) => seen.push([feature.id, layer.getBounds?.() ?? layer.getLatLng()]);
  const show = async (url) => {
    L.geoJSON(await (await fetch(url)).json(), { pointToLayer, onEachFeature }).addTo(map);
  };
  const elementAt = (place) => {
    const { left, top } = document.getElementById('map').getBoundingClientRect();
    const { x, y } = map.latLngToContainerPoint(place);
    return document.elementFromPoint(left + x, top + y).tagName;
  };
</script>`;

let browser: Browser;
t.before(async () => {
  browser = await startChromium();
});
t.teardown(() => browser.close());

/** The page with its map, on a separate origin. */
async function openMap(t: Test): Promise<{ page: Page; origin: string }> {
  const files: Record<string, [string, Buffer | string]> = {
    '/': ['text/html', html],
    '/leaflet.js': ['text/javascript', await readFile(leaflet)],
    '/leaflet.css': ['text/css', await readFile(leaflet.replace(/js$/, 'css'))],
  };
  const server = createServer((req, res) => {
    const [type, body] = files[req.url ?? ''] ?? ['text/plain', ''];
    res.writeHead(200, { 'Content-Type': type }).end(body);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const page = await browser.newPage();
  t.teardown(async () => {
    await page.close();
    server.closeAllConnections();
    server.close();
  });
  await page.goto(origin);
  return { page, origin };
}

async function recorded<T>(name: string): Promise<T> {
  const text = await readFile(`test/fixtures/weather-golden/${name}.json`, 'utf8');
  return (JSON.parse(text) as { data: T }).data;
}

const alerts = await recorded<AlertsData>('alerts');
const observation = await recorded<ObservationData>('observation-knyc');
const [first] = alerts.alerts;
if (first === undefined) throw new Error('the fixture has no alerts');
/** Is on both sides of the antimeridian. */
const aleutian = {
  ...first,
  id: 'aleutian',
  geometry: {
    type: 'Polygon',
    coordinates: [
      [
        [178, 51],
        [178, 53],
        [-176, 53],
        [-176, 51],
        [178, 51],
      ],
    ],
  },
};
const data = { ...alerts, alerts: [...alerts.alerts, aleutian] };
const reader = {
  ...readerThat(() => Promise.resolve({ data, lastModified: null })),
  observations: () => Promise.resolve({ data: observation, lastModified: null }),
};
const clock = clockAt('2025-12-15T20:54:00Z');

t.test('a map on another origin shows alerts and stations', async (t) => {
  const { page, origin } = await openMap(t);
  const api = await startWeather(t, { reader, clock, cors: { origins: [origin] } });
  await page.evaluate(`show(${JSON.stringify(`${api}/alerts?format=geojson`)})`);
  await page.evaluate(`show(${JSON.stringify(`${api}/observations?format=geojson&station=KNYC`)})`);
  const placed = data.alerts.filter(({ geometry }) => geometry !== null);
  t.ok(placed.length > 1);
  t.equal(await page.locator('path.leaflet-interactive').count(), placed.length + 1);
  const seen = await page.evaluate<[string, object][]>('JSON.parse(JSON.stringify(seen))');
  t.same(
    seen.map(([id]) => id),
    [...placed.map(({ id }) => id), 'KNYC'],
  );
  t.match(seen.at(-1)?.[1], { lat: observation.station.latitude, lng: observation.station.longitude });
  t.match(seen.at(-2)?.[1], {
    _southWest: { lat: 51, lng: -180 },
    _northEast: { lat: 53, lng: 180 },
  });
  t.equal(await page.evaluate('elementAt([52, -178])'), 'path', 'it has the right position');
  t.equal(await page.evaluate('elementAt([52, -60])'), 'DIV', 'no polygon spans the map');
});

t.test(
  'a configured origin reads tags and refusals and revalidates, and other origins read nothing',
  async (t) => {
    const { page, origin } = await openMap(t);
    const api = await startWeather(t, { reader, clock, cors: { origins: [origin] } });
    const asked = await page.evaluate<unknown[]>(`(async () => {
    const path = ${JSON.stringify(`${api}/alerts`)};
    const first = await fetch(path, { headers: { accept: 'application/geo+json' } });
    const etag = first.headers.get('etag');
    const again = await fetch(path, { headers: { accept: 'application/geo+json', 'if-none-match': etag } });
    const refused = await fetch(path + '?limit=0');
    const { code } = await refused.json();
    return [first.headers.get('content-type'), etag, again.status, refused.status, code];
  })()`);
    t.match(asked, ['application/geo+json', /^"[\w-]{27}"$/, 304, 400, 'invalid_parameter']);
    const closed = await startWeather(t, { reader, clock });
    const other = await startWeather(t, { reader, clock, cors: { origins: ['https://maps.example.org'] } });
    for (const url of [closed, other])
      t.match(
        await page.evaluate(
          `fetch(${JSON.stringify(`${url}/alerts`)}).then(() => 'read', (error) => error.name)`,
        ),
        'TypeError',
      );
  },
);
