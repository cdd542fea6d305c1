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
import {
  allBackends,
  type AnyBackend,
  type DestinationLocationDocument,
  type LocationDocument,
} from '../../storage/backends.ts';

/** The schema of sources and destinations: the settings of each backend, and the common ones. */

const prune = map(
  {
    enabled: boolean()
      .default(false)
      .description(
        'Allows waybill prune on this destination. Nothing is ever pruned by a publication itself.',
      ),
    keep_latest: integer(0, 1_000_000_000)
      .description('How many of the newest managed outputs always stay.')
      .example(20),
    older_than: duration({ atLeast: '0s', atMost: '36500d' })
      .description('Only outputs that were published longer ago than this are pruned.')
      .example('90d'),
  },
  {
    check: ({ enabled, keep_latest, older_than }) =>
      enabled && keep_latest === undefined && older_than === undefined
        ? {
            reason: 'pruning is enabled and nothing says what stays',
            expected: 'keep_latest, older_than or both beside "enabled: true"',
          }
        : null,
  },
).description(
  'What waybill prune may remove. With both limits the newest keep_latest stay, whatever their age.',
);

const destinationId = id()
  .required()
  .description(
    'Name of the destination, unique within the pipeline. It is part of the owner that the catalog records: renaming it disowns what was published.',
  )
  .example('web');

const sourceId = text('a name on one line', 'text')
  .description(
    'Identifies the source in catalogs, instead of its place. Give one if the same bundles are published from changing places, such as checkouts of a CI: otherwise each place is another source, and every output counts as changed.',
  )
  .example('maps');

const pattern = text('a pattern in the syntax of .gitignore', 'pattern');
const patterns = (): Setting<string[], false> => list(pattern, { min: 0, expected: 'a list of patterns' });

/** Settings of every source that is read. */
const sourceSettings = {
  manifest: choice('required', 'auto')
    .default('required')
    .description(
      'Whether bundles need a manifest.json. With auto, a source without one is a single bundle: all files of the directory, except those that .waybillignore and the defaults exclude. Digests are kept, so that only changed files are read.',
    )
    .example('auto'),
  include: patterns()
    .default([])
    .description('With manifest: auto, only files that match one of these patterns.'),
  exclude: patterns()
    .default([])
    .description(
      'With manifest: auto, files that are not published, in the syntax of .gitignore. "!.git" restores one that is excluded by default.',
    )
    .example(['*.map', 'drafts/']),
  links: choice('refuse', 'skip')
    .default('refuse')
    .description(
      'With manifest: auto, whether a symbolic link is an error, or is left out. No link is followed.',
    ),
};

const channelNames = {
  form: channelForm,
  expected:
    'up to 63 lower-case letters, digits and hyphens, a letter or digit at both ends, and not "current" or "releases"',
};

const channel = map({
  ttl: duration({ atLeast: '1m', atMost: '366d' })
    .default('7d')
    .description('How long a channel stays after something was published to it.'),
  public_base_url: baseUrl()
    .description('Where readers of the channel find the root of the destination, as run and push print it.')
    .example('https://preview.example.org/'),
});

const noChannels: Record<string, AcceptedBy<typeof channel>> = {};
export const initialReleases = { keep: 5, linger: '10m', current_in_url: false, channels: noChannels };

export const releasesSettings = map({
  keep: integer(0, 1_000)
    .default(initialReleases.keep)
    .description(
      'How many releases stay beside the current one: those that were used last. The one that a rollback would go to stays in any case.',
    ),
  linger: duration({ atLeast: '0s', atMost: '366d' })
    .default(initialReleases.linger)
    .description(
      'How long a release stays at least after another became current, for readers that are at it still.',
    ),
  current_in_url: boolean()
    .default(initialReleases.current_in_url)
    .description(
      'Whether the URLs of outputs have current/ after the bundle path: true if the server serves the destination as it is, false if it leads each bundle path to its current release by itself.',
    ),
  channels: mapOf(channelNames, channel)
    .default(initialReleases.channels)
    .description(
      'Pointers beside the current one, by name: what is published to one (run --channel, push --channel) is seen by those who follow it, and by nobody else.',
    ),
}).description('With layout: releases, what is kept of them.');

const destination = {
  mapping: choice('preserve_relative', 'fixed')
    .default('preserve_relative')
    .description(
      'Where bundles land: each at its path relative to the source root, or only the newest one (by "created") at the root of the destination.',
    ),
  workflow: choice('additive', 'replacement')
    .default('additive')
    .description(
      'What happens to published outputs that a new plan omits: additive keeps them, replacement removes those of this owner.',
    ),
  stale: choice('publish', 'refuse').description(
    'What becomes of a bundle whose "created" is older than that of the bundle that this pipeline published there last: it is published all the same, or fails as stale_bundle. Left out, refuse where mapping is fixed and the source is http_upload with manifest: required, else publish.',
  ),
  orphans: choice('keep', 'report', 'remove')
    .default('keep')
    .description(
      'What a run does with bundle paths that this pipeline published from bundles that the source no longer holds: they stay unmentioned, are reported, or are unpublished once all else of the pipeline has succeeded. Other than keep, it needs a source that is read, and mapping preserve_relative.',
    ),
  layout: choice('in_place', 'releases')
    .default('in_place')
    .description(
      'How a publication reaches readers: in_place writes and replaces the files that are read; releases makes a directory of its own and then, in one step, the one that readers are given. See releases.md.',
    ),
  releases: releasesSettings,
  public_base_url: baseUrl()
    .description(
      'URL under which the root of the destination is reachable; each output then carries its own URL.',
    )
    .example('https://maps.example.org/'),
  cache_control: cacheControl()
    .description('Cache-Control recorded for every output; S3 serves it as a header.')
    .example('public, max-age=60'),
  outputs: map({
    checksums: boolean().default(false).description('Adds SHA256SUMS, which "sha256sum -c" verifies.'),
    archive: boolean().default(false).description('Adds a reproducible tar.gz of the bundle.'),
    index: booleanOr('auto')
      .default(false)
      .description(
        'Adds index.html, a page that lists the files. With auto, only if the bundle has no index.html. With true, a bundle that has one is refused.',
      ),
    scene_map_page: boolean().default(false).description('Adds an HTML page for each scene map.'),
    signature: map({
      key_env: environmentName()
        .required()
        .description(
          'Environment variable, or file in secrets.directory, that holds the secret key: the file that waybill key new --no-passphrase writes.',
        )
        .example('WAYBILL_SIGNING_KEY'),
    }).description(
      'Adds SHA256SUMS, its signature SHA256SUMS.minisig, and attestation.json, a signed statement about the publication. It needs workflow: replacement, because outputs of earlier bundles would not be covered. See docs/signatures.md.',
    ),
    root_index: boolean()
      .default(false)
      .description(
        'Keeps index.html, feed.xml (Atom) and feed.json at the root of the destination, which list the newest bundles of this pipeline. It needs mapping preserve_relative.',
      ),
  })
    .default()
    .description('Generated outputs that are published beside the files of the bundle.'),
  retention: map({ prune: prune.default() }).default().description('How long published outputs are kept.'),
  limits: map({
    max_removed: amount()
      .description(
        'Most published outputs of this pipeline that one publication of a bundle, or one prune, may remove: a number, or a share of them, rounded down. What would remove more is refused before anything is written; --allow-removals allows it once.',
      )
      .example('20%'),
  })
    .default()
    .description('What no run may do by accident.'),
  file_concurrency: integer(1, 64).description(
    `Files that are written side by side; left out, ${defaultConcurrencies()}.`,
  ),
};

/** The settings that all destinations share. */
export const destinationSettings = map(destination);

const httpUpload = map({
  backend: choice('http_upload')
    .required()
    .description('Bundles that producers push over HTTP to the daemon.'),
  max_upload_size: size({ atLeast: 1 })
    .default('512MiB')
    .description('Largest archive that is taken, and largest bundle that it may hold when extracted.'),
  max_files: integer(1, maxListedFiles)
    .default(10_000)
    .description('Most files that an uploaded bundle may hold.'),
  manifest: choice('required', 'auto')
    .default('required')
    .description(
      'Whether an archive needs a manifest.json. With auto, one without it is a bundle of all its files, except those that .waybillignore and the defaults exclude.',
    )
    .example('auto'),
  include: sourceSettings.include,
  exclude: sourceSettings.exclude,
});

export type SourceDocument =
  (LocationDocument & DocumentOf<typeof sourceSettings> & { id?: string }) | AcceptedBy<typeof httpUpload>;

// A list of backends has no type for each of them, hence the assertions.
export const sourceSchema = variants('backend', 'a source', {
  ...byBackend((backend) => locationMap(backend, { id: sourceId }, sourceSettings)),
  http_upload: httpUpload,
}).description('Where the bundles of the pipeline come from.') as Setting<SourceDocument, false>;

export type DestinationDocument = DestinationLocationDocument &
  DocumentOf<typeof destination> & { id: string };

export const destinationSchema = variants(
  'backend',
  'a destination',
  byBackend((backend) =>
    locationMap(backend, { id: destinationId }, { ...backend.destinationSettings(kinds), ...destination }),
  ),
) as Setting<DestinationDocument, false>;

/** The map of a location: `before`, then the settings of the backend, then `after`. */
export function locationMap(backend: AnyBackend, before: Settings = {}, after: Settings = {}): Setting {
  const name = choice(backend.name).required().description(backend.summary);
  const { setTogether } = backend;
  return map({ ...before, backend: name, ...backend.settings(kinds), ...after }, { setTogether });
}

function byBackend(settingOf: (backend: AnyBackend) => Setting): Settings {
  return Object.fromEntries(allBackends.map((backend) => [backend.name, settingOf(backend)]));
}

/** `8, and 32 where …`. */
function defaultConcurrencies(): string {
  const usual = allBackends.find(({ fileConcurrency }) => fileConcurrency.because === null);
  const others = allBackends.flatMap(({ fileConcurrency: { files, because } }) =>
    because === null ? [] : [`, and ${files} where ${because}`],
  );
  return `${usual?.fileConcurrency.files ?? ''}${others.join('')}`;
}
