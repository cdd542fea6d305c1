import { maxListedFiles } from '../../bundle/limits.ts';
import { channelForm } from '../../lib/paths.ts';
import * as kinds from '../../lib/settings/kinds.ts';
import {
  amount,
  baseUrl,
  boolean,
  booleanOr,
  cacheControl,
  choice,
  duration,
  environmentName,
  id,
  integer,
  list,
  map,
  mapOf,
  size,
  text,
  variants,
} from '../../lib/settings/kinds.ts';
import type { AcceptedBy, DocumentOf, Setting, Settings } from '../../lib/settings/setting.ts';
import { rate } from '../../lib/settings/transfer-rate.ts';
import {
  allBackends,
  type AnyBackend,
  type DestinationLocationDocument,
  type LocationDocument,
} from '../../storage/backends.ts';

/** The settings of sources and destinations. Some are for a certain backend, and some are for all of them. */

const prune = map(
  {
    enabled: boolean()
      .default(false)
      .description(
        'Allows waybill prune here. Needs a limit and layout: in_place. Publications never prune.',
      ),
    keep_latest: integer(0, 1_000_000_000)
      .description('Number of the newest managed outputs that are kept, at any age.')
      .example(20),
    older_than: duration({ atLeast: '0s', atMost: '36500d' })
      .description('Prunes only outputs published longer ago than this.')
      .example('90d'),
  },
  {
    check: ({ enabled, keep_latest, older_than }) =>
      enabled && keep_latest === undefined && older_than === undefined
        ? {
            reason: 'pruning is enabled without a limit',
            expected: 'keep_latest: 10, older_than: 30d, or both, next to enabled: true',
          }
        : null,
  },
).description('Limits for waybill prune.');

const destinationId = id()
  .required()
  .description(
    'Name of the destination. After a rename, the published files no longer belong to the pipeline.',
  )
  .example('web');

const sourceId = text('a name on one line', 'text')
  .description(
    'Identifies the source in catalogs. Set it if the location changes, as in CI checkouts; otherwise every output then counts as changed.',
  )
  .example('maps');

const pattern = text('a pattern in the syntax of .gitignore', 'pattern');
const patterns = (): Setting<string[], false> => list(pattern, { min: 0, expected: 'a list of patterns' });

const sourceSettings = {
  manifest: choice('required', 'auto')
    .default('required')
    .description(
      'With auto, a source or archive without manifest.json is one bundle of all its files, except those that .waybillignore and the defaults exclude.',
    )
    .example('auto'),
  include: patterns().default([]).description('With manifest: auto, publishes only matching files.'),
  exclude: patterns()
    .default([])
    .description(
      'With manifest: auto, leaves out matching files (.gitignore syntax). "!.git" restores a default exclusion.',
    )
    .example(['*.map', 'drafts/']),
  links: choice('refuse', 'follow', 'skip')
    .default('refuse')
    .description(
      'Symbolic links. refuse: an error. follow: publishes the target. skip: leaves the link out (with manifest: auto). Targets must be inside the source or, if it is local, in links_to.',
    )
    .example('follow'),
};

/** Only for local sources. */
const linksTo = list(kinds.path(), { min: 0, expected: 'a list of directories' })
  .default([])
  .description(
    'With links: follow, further directories that links may point to. Users who can write to the source can then publish every file in them that waybill can read.',
  )
  .example(['./shared']);

const channelNames = {
  form: channelForm,
  expected:
    'up to 63 lower-case letters, digits and hyphens, a letter or digit at both ends, and not "current" or "releases"',
};

const channel = map({
  ttl: duration({ atLeast: '1m', atMost: '366d' })
    .default('7d')
    .description('How long a channel is kept after its last publication.'),
  public_base_url: baseUrl()
    .description('URL of the root of the destination for readers of the channel.')
    .example('https://preview.example.org/'),
});

const noChannels: Record<string, AcceptedBy<typeof channel>> = {};
export const initialReleases = { keep: 5, linger: '10m', current_in_url: false, channels: noChannels };

export const releasesSettings = map({
  keep: integer(0, 1_000)
    .default(initialReleases.keep)
    .description(
      'Number of kept releases besides the current one, most recently used first. The target of a rollback is always kept.',
    ),
  linger: duration({ atLeast: '0s', atMost: '366d' })
    .default(initialReleases.linger)
    .description('Minimum time that a replaced release is kept.'),
  current_in_url: boolean()
    .default(initialReleases.current_in_url)
    .description(
      'With true, output URLs contain current/ after the bundle path, and the web server serves the directory as it is. Otherwise, it maps each bundle path to its current release.',
    ),
  channels: mapOf(channelNames, channel)
    .default(initialReleases.channels)
    .description(
      'Named pointers for previews. Publications to a channel (run --channel, push --channel) are visible only there.',
    ),
}).description('Kept releases, with layout: releases.');

const destination = {
  mapping: choice('preserve_relative', 'fixed')
    .default('preserve_relative')
    .description(
      'Place of the bundles. preserve_relative: each bundle at its path in the source. fixed: only the newest bundle, at the root of the destination.',
    ),
  workflow: choice('additive', 'replacement')
    .default('additive')
    .description(
      'Published outputs that the bundle no longer has. additive: kept. replacement: removed if they are of this owner.',
    ),
  stale: choice('publish', 'refuse').description(
    'Bundles with an older "created" than the last one published there. publish: published. refuse: stale_bundle. Default: refuse with mapping: fixed and an http_upload source with manifest: required, else publish.',
  ),
  orphans: choice('keep', 'report', 'remove')
    .default('keep')
    .description(
      'Orphans: published bundle paths that the source no longer has. keep: ignored. report: listed. remove: unpublished after everything else in the pipeline has succeeded. report and remove need a source other than http_upload, and mapping: preserve_relative.',
    ),
  layout: choice('in_place', 'releases')
    .default('in_place')
    .description(
      'Delivery to readers. in_place: replaces files one by one. releases: writes a new directory, then makes it current in one step. See docs/releases.md.',
    ),
  releases: releasesSettings,
  public_base_url: baseUrl()
    .description('URL of the root of the destination, for the URLs of outputs.')
    .example('https://maps.example.org/'),
  cache_control: cacheControl()
    .description('Cache-Control of every output. S3 serves it as a header.')
    .example('public, max-age=60'),
  outputs: map({
    checksums: boolean().default(false).description('Adds SHA256SUMS, for sha256sum -c.'),
    archive: boolean().default(false).description('Adds a reproducible tar.gz of the bundle.'),
    index: booleanOr('auto')
      .default(false)
      .description(
        'Adds index.html, a list of the files. true: a bundle that has one is refused. auto: only if the bundle has none.',
      ),
    scene_map_page: boolean().default(false).description('Adds an HTML page for each scene map.'),
    signature: map({
      key_env: environmentName()
        .required()
        .description(
          'Environment variable, or file in secrets.directory, that holds the secret key, from waybill key new --no-passphrase.',
        )
        .example('WAYBILL_SIGNING_KEY'),
    }).description(
      'Adds SHA256SUMS, SHA256SUMS.minisig and attestation.json. Needs workflow: replacement. See docs/signatures.md.',
    ),
    root_index: boolean()
      .default(false)
      .description(
        'Keeps index.html, feed.xml and feed.json with the newest bundles at the root of the destination. Needs mapping: preserve_relative.',
      ),
  })
    .default()
    .description('Generated files of a bundle.'),
  retention: map({ prune: prune.default() }).default().description('Retention of outputs.'),
  limits: map({
    max_removed: amount()
      .description(
        'Maximum outputs that one publication or prune may remove: a number, or a percentage of all, rounded down. --allow-removals overrides it once.',
      )
      .example('20%'),
  })
    .default()
    .description('Limits against accidents.'),
  file_concurrency: integer(1, 64).description(
    `Number of files that are written concurrently. Default: ${defaultConcurrencies()}.`,
  ),
  max_rate: rate()
    .description(
      'Maximum bytes per second that a run sends to the destination. Reads, copies on the server, catalogs and locks are not limited. On S3, objects and 16 MiB parts are still sent in one piece.',
    )
    .example('2MiB/s'),
};

export const destinationSettings = map(destination);

const httpUpload = map({
  backend: choice('http_upload').required().description('Bundles that producers upload over HTTP.'),
  max_upload_size: size({ atLeast: 1 })
    .default('512MiB')
    .description('Maximum size of an archive, and of its content.'),
  max_files: integer(1, maxListedFiles).default(10_000).description('Maximum files in a bundle.'),
  manifest: sourceSettings.manifest,
  include: sourceSettings.include,
  exclude: sourceSettings.exclude,
});

export type SourceDocument =
  | (LocationDocument & DocumentOf<typeof sourceSettings> & { id?: string; links_to?: string[] })
  | AcceptedBy<typeof httpUpload>;

// The list of backends does not know the exact type of each one, so there are type assertions here.
export const sourceSchema = variants('backend', 'a source such as {backend: local, path: /srv/in}', {
  ...byBackend((backend) =>
    locationMap(
      backend,
      { id: sourceId },
      { ...sourceSettings, ...(backend.name === 'local' ? { links_to: linksTo } : {}) },
    ),
  ),
  http_upload: httpUpload,
}).description('The source of the bundles.') as Setting<SourceDocument, false>;

export type DestinationDocument = DestinationLocationDocument &
  DocumentOf<typeof destination> & { id: string };

export const destinationSchema = variants(
  'backend',
  'a destination such as {id: web, backend: local, path: /srv/www}',
  byBackend((backend) =>
    locationMap(backend, { id: destinationId }, { ...backend.destinationSettings(kinds), ...destination }),
  ),
) as Setting<DestinationDocument, false>;

/** Returns the map for a location, with `before`, the settings of the backend, and `after`, in this order. */
export function locationMap(backend: AnyBackend, before: Settings = {}, after: Settings = {}): Setting {
  const name = choice(backend.name).required().description(backend.summary);
  const { setTogether } = backend;
  return map({ ...before, backend: name, ...backend.settings(kinds), ...after }, { setTogether });
}

function byBackend(settingOf: (backend: AnyBackend) => Setting): Settings {
  return Object.fromEntries(allBackends.map((backend) => [backend.name, settingOf(backend)]));
}

/** Describes the defaults, as in `8, and 32 for …`. */
function defaultConcurrencies(): string {
  const usual = allBackends.find(({ fileConcurrency }) => fileConcurrency.because === null);
  const others = allBackends.flatMap(({ fileConcurrency: { files, because } }) =>
    because === null ? [] : [`, and ${files} for ${because}`],
  );
  return `${usual?.fileConcurrency.files ?? ''}${others.join('')}`;
}
