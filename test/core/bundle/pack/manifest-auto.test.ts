import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { PutObjectCommand } from '@aws-sdk/client-s3';
import t, { type Test } from 'tap';
import type { AutoManifestConfig, PipelineConfig } from '../../../../src/core/config/config.ts';
import type { CoreContext } from '../../../../src/core/context.ts';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import type { Secrets } from '../../../../src/core/lib/secrets.ts';
import { findBundles } from '../../../../src/core/publish/find-bundles.ts';
import { publishPipeline } from '../../../../src/core/publish/publish.ts';
import type { PipelineResult } from '../../../../src/core/publish/results/result.ts';
import type { SourceLocation } from '../../../../src/core/storage/backends.ts';
import { storageOpener } from '../../../../src/core/storage/open-storage.ts';
import { delegate } from '../../../../src/core/storage/wrappers/delegate.ts';
import { destinationOf } from '../../../faults/world.ts';
import { locationOf, secretsOf, startRadosgw } from '../../../services/radosgw.ts';
import { noSecrets, sftpLocationOf, startSshd } from '../../../services/sshd.ts';

/** `manifest: auto`: a directory without a manifest is one bundle, and only changed files are read. */

const site = {
  'index.html': '<p>home</p>',
  'css/style.css': 'p {}',
  'notes.txt~': 'editor',
  '.git/HEAD': 'ref',
};

interface Source {
  location: SourceLocation;
  secrets?: Secrets;
  /** Writes a file of the source, with an old time unless it is `recent`. */
  write: (name: string, text: string, options?: { recent?: boolean }) => Promise<void> | void;
}

class Publisher {
  /** Files of the source that were read to compute digests. */
  readonly reads: string[] = [];
  onRead: (name: string) => void = () => undefined;
  readonly #pipeline: PipelineConfig;
  readonly #context: CoreContext;

  constructor(
    source: Source,
    readonly place: string,
    patterns: Partial<AutoManifestConfig> = {},
  ) {
    const secrets = source.secrets ?? noSecrets;
    const open = storageOpener({ clock: systemClock, log: silentLog, secrets });
    this.#pipeline = {
      ...{ id: 'site', sourceId: 'site', maxWaiting: null, schedule: null, watch: null },
      ...{
        retryForMs: null,
        runTimeoutMs: 3_600_000,
        discoveryTimeoutMs: 3_600_000,
        whileRetrying: 'pass' as const,
      },
      source: source.location,
      autoManifest: { include: [], exclude: [], links: 'refuse', ...patterns },
      ...(patterns.links === 'follow' ? { followLinks: { linksTo: [] } } : {}),
      sceneMaps: { contentRules: 'warning' },
      destinations: [
        {
          ...destinationOf('replacement'),
          ...{ mapping: 'fixed', location: { backend: 'local', path: this.web } },
        },
      ],
    };
    this.#context = {
      ...{ clock: systemClock, log: silentLog, secrets, cacheDirectory: path.join(place, 'cache') },
      openStorage: async (location, options) => {
        const storage = await open(location, options);
        if (location !== source.location) return storage;
        const read: typeof storage.read = (key) => {
          this.reads.push(key);
          this.onRead(key);
          return storage.read(key);
        };
        return delegate(storage, { read });
      },
    };
  }

  get web(): string {
    return path.join(this.place, 'web');
  }

  async run(dryRun = false): Promise<PipelineResult> {
    this.reads.length = 0;
    return publishPipeline(this.#context, this.#pipeline, { dryRun, force: false });
  }

  async actions(): Promise<(string | undefined)[]> {
    const { destinations, error, invalidBundles } = await this.run();
    return [
      ...destinations.flatMap(({ actions, error: failed }) =>
        failed === null ? actions.map(({ action }) => action) : [failed.message],
      ),
      ...(error === null ? [] : [error.message]),
      ...invalidBundles.map(() => 'invalid'),
    ];
  }

  async excluded(): Promise<readonly string[]> {
    const { source } = this.#pipeline;
    if (source.backend === 'http_upload') return [];
    const storage = await this.#context.openStorage(source, { readOnly: true });
    const found = await findBundles(this.#context, storage, this.#pipeline, { dryRun: true });
    await storage.close();
    return found.excluded;
  }
}

const longAgo = new Date('2026-11-20T01:02:03Z');

function writeFile(directory: string, name: string, text: string, recent = false): void {
  const file = path.join(directory, name);
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
  if (!recent) utimesSync(file, longAgo, longAgo);
}

function localSource(t: Test, files: Record<string, string> = site): Source & { directory: string } {
  const directory = path.join(t.testdir({ site: {} }), 'site');
  for (const [name, text] of Object.entries(files)) writeFile(directory, name, text);
  return {
    ...{ directory, location: { backend: 'local', path: directory } },
    write: (name, text, { recent = false } = {}) => writeFile(directory, name, text, recent),
  };
}

/** A new directory next to the source, in the same test directory. */
const placeOf = ({ directory }: { directory: string }): string => path.dirname(directory);

async function anUnchangedSourceReadsNoFile(t: Test, source: Source, place: string): Promise<void> {
  const publisher = new Publisher(source, place);
  t.same(await publisher.actions(), ['publish_new']);
  t.same(publisher.reads.filter((name) => name === 'index.html').length >= 1, true);
  t.same(readdirSync(publisher.web).sort(), ['.publisher.json', 'css', 'index.html']);
  t.same(await publisher.actions(), ['skip_same']);
  t.same(publisher.reads, [], 'nothing is read');
  await source.write('css/style.css', 'p { color: red }');
  t.same(await publisher.actions(), ['replace_catalog']);
  t.notOk(publisher.reads.includes('index.html'), 'only the changed file is read');
  t.equal(readFileSync(path.join(publisher.web, 'css/style.css'), 'utf8'), 'p { color: red }');
  t.equal(readFileSync(path.join(publisher.web, 'index.html'), 'utf8'), site['index.html']);
}

t.test('publishes a local directory, and does not read it again if it is unchanged', async (t) => {
  const source = localSource(t);
  await anUnchangedSourceReadsNoFile(t, source, placeOf(source));
});

t.test('publishes a directory on SFTP likewise', async (t) => {
  const server = await startSshd(t);
  const directory = path.join(server.root, 'site');
  for (const [name, text] of Object.entries(site)) writeFile(directory, name, text);
  const location = sftpLocationOf(server, directory);
  const write = (name: string, text: string): void => writeFile(directory, name, text);
  await anUnchangedSourceReadsNoFile(t, { location, write }, t.testdir({}));
});

t.test('publishes a prefix of a bucket likewise', async (t) => {
  const server = await startRadosgw(t);
  const bucket = await server.newBucket();
  const client = server.client();
  const write = async (name: string, Body: string): Promise<void> => {
    await client.send(new PutObjectCommand({ Bucket: bucket, Key: `site/${name}`, Body }));
  };
  for (const [name, text] of Object.entries(site)) await write(name, text);
  const location = locationOf(server.endpoint, bucket, 'site/');
  const source = { location, secrets: secretsOf(server.user), write };
  await anUnchangedSourceReadsNoFile(t, source, t.testdir({}));
});

t.test('detects a change that keeps size and time of the file', async (t) => {
  const source = localSource(t);
  const publisher = new Publisher(source, placeOf(source));
  await publisher.run();
  await source.write('index.html', '<p>HOME</p>');
  t.same(await publisher.actions(), ['replace_catalog']);
  t.equal(readFileSync(path.join(publisher.web, 'index.html'), 'utf8'), '<p>HOME</p>');
});

t.test('reads a file again that changed within two seconds of the listing', async (t) => {
  const source = localSource(t);
  await source.write('index.html', 'recent', { recent: true });
  const publisher = new Publisher(source, placeOf(source));
  await publisher.run();
  t.same(await publisher.actions(), ['skip_same']);
  t.same(publisher.reads, ['index.html'], 'its digest was not stored');
});

t.test('a file that changes while it is read fails the bundle with its name', async (t) => {
  const source = localSource(t);
  const publisher = new Publisher(source, placeOf(source));
  publisher.onRead = (name) => {
    if (name === 'index.html') writeFile(source.directory, name, 'longer than it was before', true);
  };
  const failed = await publisher.run();
  t.match(failed, {
    status: 'failed',
    invalidBundles: [
      {
        bundle: '.',
        error: {
          code: 'invalid_bundle',
          message: /index\.html changed while it was read/,
          hint: 'run again when no program writes to the directory',
        },
      },
    ],
  });
  t.notOk(existsSync(publisher.web), 'nothing is published');
  publisher.onRead = () => undefined;
  t.same(await publisher.actions(), ['publish_new'], 'the next run publishes the new state');
});

t.test('`created` is the time of the newest file that is not in the future', async (t) => {
  const source = localSource(t);
  const publisher = new Publisher(source, placeOf(source));
  const created = async (): Promise<string> => {
    const { destinations } = await publisher.run();
    t.match(destinations, [{ status: 'ok' }]);
    t.notOk(destinations[0]?.warnings.some(({ code }) => code === 'created_in_future'));
    const catalog = readFileSync(path.join(publisher.web, '.publisher.json'), 'utf8');
    return (JSON.parse(catalog) as { bundles: [{ created: string }] }).bundles[0].created;
  };
  const setTime = (name: string, time: string): void =>
    utimesSync(path.join(source.directory, name), new Date(time), new Date(time));
  setTime('css/style.css', '2099-01-01T00:00:00Z');
  t.equal(await created(), longAgo.toISOString());
  const before = new Date().toISOString();
  await source.write('index.html', '<p>new</p>');
  setTime('index.html', '2200-01-01T00:00:00Z');
  const now = await created();
  t.ok(now >= before && now <= new Date().toISOString(), `${now} is the time of the run`);
});

t.test('a dry run stores no digests, and a damaged cache is ignored', async (t) => {
  const source = localSource(t);
  const publisher = new Publisher(source, placeOf(source));
  await publisher.run(true);
  const cache = path.join(publisher.place, 'cache');
  t.notOk(existsSync(cache));
  await publisher.run();
  for (const name of readdirSync(path.join(cache, 'digests')))
    writeFileSync(path.join(cache, 'digests', name), '{');
  t.same(await publisher.actions(), ['skip_same']);
  t.ok(publisher.reads.includes('index.html'), 'everything is read again');
  rmSync(cache, { recursive: true });
  writeFileSync(cache, 'a file where the directory should be');
  t.same(await publisher.actions(), ['skip_same']);
});

t.test('.waybillignore, patterns and the defaults exclude files, and lists them', async (t) => {
  const source = localSource(t, {
    ...site,
    '.waybillignore': '*.map\ndrafts/\n',
    'app.js.map': '{}',
    'drafts/a': 'a',
    'todo.md': 't',
  });
  const publisher = new Publisher(source, placeOf(source), { exclude: ['todo.md', '!notes.txt~'] });
  t.same(await publisher.excluded(), ['.git/', '.waybillignore', 'app.js.map', 'drafts/', 'todo.md']);
  await publisher.run();
  t.same(readdirSync(publisher.web).sort(), ['.publisher.json', 'css', 'index.html', 'notes.txt~']);
  const only = new Publisher(source, path.join(placeOf(source), 'only'), { include: ['*.html'] });
  await only.run();
  t.same(readdirSync(only.web).sort(), ['.publisher.json', 'index.html']);
});

t.test('a .waybillignore that cannot be read as a file fails the source', async (t) => {
  const source = localSource(t, { ...site, 'private.txt': 'x' });
  const ignoreFile = path.join(source.directory, '.waybillignore');
  writeFileSync(path.join(placeOf(source), 'shared'), 'private.txt\n');
  symlinkSync('../shared', ignoreFile);
  const refused = { code: 'usage', message: /"\.waybillignore" is a symbolic link/, hint: /links: follow/ };
  for (const links of ['refuse', 'skip'] as const) {
    const publisher = new Publisher(source, placeOf(source), { links });
    t.match(await publisher.run(), { status: 'failed', error: refused }, links);
    t.notOk(existsSync(publisher.web), 'nothing is published');
  }
  rmSync(ignoreFile);
  symlinkSync('css/ignored', ignoreFile);
  await source.write('css/ignored', 'private.txt\n');
  const following = new Publisher(source, placeOf(source), { links: 'follow' });
  t.match(await following.run(), { status: 'ok' });
  t.same(readdirSync(following.web).sort(), ['.publisher.json', 'css', 'index.html'], 'the link is followed');
  rmSync(ignoreFile);
  mkdirSync(ignoreFile);
  t.match(await following.run(), { error: { code: 'usage', message: /is not a regular file/ } });
});

t.test('rejects files with secrets by name, unless they are included explicitly', async (t) => {
  const source = localSource(t, {
    ...site,
    '.env': 'TOKEN=1',
    '.env.example': 'TOKEN=',
    'keys/id_ed25519': 'key',
  });
  const refused = await new Publisher(source, placeOf(source)).run();
  t.same(
    refused.invalidBundles[0]?.error.findings.map(({ code, file }) => [code, file]),
    [
      ['secret_file', '.env'],
      ['secret_file', 'keys/id_ed25519'],
    ],
  );
  const excluding = new Publisher(source, path.join(placeOf(source), 'a'), { exclude: ['.env', 'keys'] });
  t.same(await excluding.actions(), ['publish_new']);
  const restoring = new Publisher(source, path.join(placeOf(source), 'b'), { exclude: ['!.env', 'keys'] });
  t.same(await restoring.actions(), ['publish_new']);
  t.ok(existsSync(path.join(restoring.web, '.env')));
  const including = new Publisher(source, path.join(placeOf(source), 'c'), { include: ['*'] });
  t.same(await including.actions(), ['publish_new']);
});

t.test('the options that a finding suggests for a secret match only that file', async (t) => {
  const name = "it's [a] *.pem";
  const source = localSource(t, { ...site, [name]: 'KEY', "it's a b.pem": 'KEY' });
  const [finding] = (await new Publisher(source, placeOf(source)).run()).invalidBundles.flatMap(({ error }) =>
    error.findings.filter(({ file }) => file === name),
  );
  const message = finding?.message ?? '';
  const [excluded, included] = message.matchAll(/--exclude ('.*?'(?:\\''.*?')*)/g);
  const unquoted = (found: RegExpMatchArray | undefined): string =>
    execFileSync('sh', ['-c', `printf %s ${found?.[1] ?? ''}`], { encoding: 'utf8' });
  const excluding = new Publisher(source, placeOf(source), { exclude: [unquoted(excluded)] });
  t.same(
    (await excluding.run()).invalidBundles.flatMap(({ error }) => error.findings.map(({ file }) => file)),
    ["it's a b.pem"],
  );
  const including = new Publisher(source, placeOf(source), { exclude: [unquoted(included)] });
  t.same(
    (await including.run()).invalidBundles.flatMap(({ error }) => error.findings.map(({ file }) => file)),
    ["it's a b.pem"],
  );
});

t.test('rejects symbolic links, and names the flag that excludes them', async (t) => {
  const source = localSource(t);
  symlinkSync('index.html', path.join(source.directory, 'home.html'));
  const refused = await new Publisher(source, placeOf(source)).run();
  t.match(refused.invalidBundles, [
    { error: { findings: [{ code: 'file_is_link', file: 'home.html', message: /--links skip/ }] } },
  ]);
  const skipping = new Publisher(source, path.join(placeOf(source), 'skipping'), { links: 'skip' });
  t.same(await skipping.actions(), ['publish_new']);
  t.notOk(existsSync(path.join(skipping.web, 'home.html')));
  t.ok((await skipping.excluded()).includes('home.html'));
});

t.test('followed links must stay below the source, and errors name the link', async (t) => {
  const source = localSource(t, { ...site, '.env': 'KEY=1' });
  const at = (name: string): string => path.join(source.directory, name);
  symlinkSync('index.html', at('home.html'));
  const follow = { links: 'follow', exclude: ['.env'] } as const;
  t.same(await new Publisher(source, placeOf(source), follow).actions(), ['publish_new']);
  symlinkSync('.env', at('settings.txt'));
  symlinkSync('nowhere', at('gone.html'));
  symlinkSync('..', at('outside'));
  symlinkSync('.', at('loop'));
  const refused = await new Publisher(source, placeOf(source), follow).run();
  const findings = refused.invalidBundles[0]?.error.findings ?? [];
  t.same(
    findings.map(({ file, code }) => `${file ?? ''} ${code}`),
    ['gone.html file_is_link', 'loop file_is_link', 'outside file_is_link', 'settings.txt secret_file'],
  );
  t.match(findings[0]?.message, /is a symbolic link to "nowhere", which leads to nothing/);
  const excluding = { ...follow, exclude: ['.env', 'gone.html', 'outside', 'loop', 'settings.txt'] };
  t.same(await new Publisher(source, placeOf(source), excluding).actions(), ['skip_same']);
});

t.test('a directory with a manifest is the bundle that its manifest describes', async (t) => {
  const manifest = JSON.stringify({ created: '2026-11-20T00:00:00Z', files: ['index.html'] });
  const source = localSource(t, { ...site, 'manifest.json': manifest });
  const publisher = new Publisher(source, placeOf(source));
  t.same(await publisher.actions(), ['publish_new']);
  t.same(readdirSync(publisher.web).sort(), ['.publisher.json', 'index.html']);
});

t.test('the manifest.json of a web app is published like any other file', async (t) => {
  const webApp = '{"name": "Maps", "short_name": "Maps", "icons": [], "start_url": "."}';
  const source = localSource(t, { 'index.html': 'home', 'manifest.json': webApp });
  const publisher = new Publisher(source, placeOf(source));
  t.same(await publisher.actions(), ['publish_new']);
  t.equal(readFileSync(path.join(publisher.web, 'manifest.json'), 'utf8'), webApp);
  t.same(await publisher.actions(), ['skip_same']);
  // A manifest of a bundle may have any other keys, and its mistakes must be reported.
  for (const mistaken of [
    '{"icons": [], "files": ["index.html"]}',
    '{"icons": [], "created": "yesterday"}',
    '{"file": ["index.html"]}',
    '["icons"]',
    '{"icons": [',
  ]) {
    source.write('manifest.json', mistaken);
    t.same((await publisher.actions()).at(-1), 'invalid', mistaken);
  }
  t.equal(readFileSync(path.join(publisher.web, 'manifest.json'), 'utf8'), webApp, 'nothing was removed');
});

t.test('an empty directory is an error, and a missing file is removed', async (t) => {
  const source = localSource(t);
  const publisher = new Publisher(source, placeOf(source));
  await publisher.run();
  rmSync(path.join(source.directory, 'css'), { recursive: true });
  t.same(await publisher.actions(), ['replace_catalog']);
  t.notOk(existsSync(path.join(publisher.web, 'css')));
  renameSync(path.join(source.directory, 'index.html'), path.join(source.directory, 'index.html~'));
  t.match(await publisher.run(), {
    status: 'failed',
    invalidBundles: [{ error: { message: /it has only excluded files/ } }],
  });
  t.ok(existsSync(path.join(publisher.web, 'index.html')), 'published files stay');
});
