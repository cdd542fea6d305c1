import t from 'tap';
import type { DestinationConfig } from '../../../../src/core/config/config.ts';
import { publicUrl } from '../../../../src/core/publish/results/public-url.ts';

type Destination = Parameters<typeof publicUrl>[0];

const inPlace: Destination = {
  publicBaseUrl: 'https://www.example.org/docs/',
  releases: null,
  location: { backend: 'local', path: '/srv/www' },
};
const kept = { keep: 5, lingerMs: 0, currentInUrl: false, channels: [] };
const withReleases = (over: Partial<NonNullable<DestinationConfig['releases']>>): Destination => ({
  ...inPlace,
  releases: { ...kept, ...over },
});

t.test('the URL of a bundle path is below the public base URL, escaped', async (t) => {
  t.equal(publicUrl(inPlace, '.', null), 'https://www.example.org/docs/');
  t.equal(publicUrl(inPlace, 'a b/ü', null), 'https://www.example.org/docs/a%20b/%C3%BC/');
  t.equal(publicUrl({ ...inPlace, publicBaseUrl: null }, '.', null), null);
  t.equal(publicUrl(withReleases({}), 'maps', null), 'https://www.example.org/docs/maps/');
  t.equal(
    publicUrl(withReleases({ currentInUrl: true }), 'maps', null),
    'https://www.example.org/docs/maps/current/',
  );
});

t.test('a channel never gets the URL of the current release', async (t) => {
  const channels = [{ name: 'pr-12', ttlMs: 1, publicBaseUrl: 'https://pr-12.example.org/' }];
  t.equal(publicUrl(withReleases({ channels }), 'maps', 'pr-12'), 'https://pr-12.example.org/maps/');
  const unnamed = [{ name: 'pr-12', ttlMs: 1 }];
  t.equal(publicUrl(withReleases({ channels: unnamed }), 'maps', 'pr-12'), null);
  const served = withReleases({ channels: unnamed, currentInUrl: true });
  t.equal(publicUrl(served, 'maps', 'pr-12'), 'https://www.example.org/docs/maps/pr-12/');
  const onS3 = { ...served, location: { ...served.location, backend: 's3' } as Destination['location'] };
  t.equal(publicUrl(onS3, 'maps', 'pr-12'), null, 'a pointer in current.json is not a path');
});
