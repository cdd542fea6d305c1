import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import type { SourceBundle } from '../../src/core/bundle/source-bundle.ts';
import { publishBundle } from '../../src/core/publish/publish-bundle.ts';
import { readAll } from '../../src/core/storage/body.ts';
import { joinKey, listedKey } from '../../src/core/storage/key.ts';
import { localStorage } from '../../src/core/storage/local/local-storage.ts';
import { sftpStorage } from '../../src/core/storage/sftp/sftp-storage.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { startCaddy } from '../services/caddy.ts';
import { startNginx } from '../services/nginx.ts';
import { noSecrets, sftpLocationOf, startSshd } from '../services/sshd.ts';
import { instant } from '../support/instant.ts';
import { howMany } from '../support/sampling.ts';
import { directoryReader, webReader } from './reader-programs.ts';
import { publishAsRelease, site, siteOf } from './release-world.ts';
import { bundleOf, contextWith, destinationOf, owner, testClock } from './world.ts';

/** Checks the files that readers see while many generations are published. Each file names its generation. */

const generations = howMany(100, 25);
const names = ['index.html', 'assets/app.js', 'assets/style.css'];
/** Long enough for readers to finish what they began. */
const linger = { keep: 3, lingerMs: 600_000 };

interface Seen {
  reads: number;
  mixed: number;
  missing: number;
  generations: number;
  /** How long generations are published. */
  seconds: number;
}

/** A directory that web servers can read, too. */
function publicDirectory(t: Pick<Test, 'teardown'>): string {
  const directory = mkdtempSync(path.join(tmpdir(), 'waybill-readers-'));
  chmodSync(directory, 0o755);
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

function generation(n: number): SourceBundle {
  const files = Object.fromEntries(names.map((name) => [name, String(n)]));
  const created = instant(new Date(Date.UTC(2026, 10, 20) + n * 1_000).toISOString());
  return { ...bundleOf({ ...files, 'same.txt': 'the same in each' }, 'site'), created };
}

async function publishGeneration(root: Storage, n: number): Promise<void> {
  const { error } = await publishAsRelease(root, n, { ...linger, bundle: generation(n) });
  if (error !== null) throw new Error(`${error.code}: ${error.message}`);
}

async function publishInPlace(root: Storage, n: number): Promise<void> {
  const destination = destinationOf('replacement');
  const publication = { bundle: generation(n), owner, destination, destinationPath: site };
  const how = { dryRun: false, force: false };
  const { error } = await publishBundle(contextWith(testClock()), root, publication, how);
  if (error !== null) throw new Error(`${error.code}: ${error.message}`);
}

/** Reads with this many processes, each as often as possible, during `work`. Returns the combined results. */
async function seenByProcesses(
  processes: number,
  program: readonly string[],
  work: () => Promise<void>,
): Promise<Seen> {
  const readers = Array.from({ length: processes }, () => {
    const reader = spawn(process.execPath, ['-e', ...program], { stdio: ['pipe', 'pipe', 'inherit'] });
    let output = '';
    reader.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const ended = once(reader, 'close').then(() => JSON.parse(output) as Omit<Seen, 'seconds'>);
    return { reader, ended };
  });
  const seconds = await secondsOf(work).finally(() => {
    for (const { reader } of readers) reader.stdin.end();
  });
  const all = await Promise.all(readers.map(({ ended }) => ended));
  const sum = (key: 'reads' | 'mixed' | 'missing'): number => all.reduce((sum, each) => sum + each[key], 0);
  const generations = Math.max(...all.map((each) => each.generations));
  return { reads: sum('reads'), mixed: sum('mixed'), missing: sum('missing'), generations, seconds };
}

async function secondsOf(work: () => Promise<void>): Promise<number> {
  const started = performance.now();
  await work();
  return (performance.now() - started) / 1_000;
}

/** Reads with `read`, which returns the generation of each file, or null if it is missing. */
async function seenBy(
  read: () => Promise<(string | null)[]>,
  readers: number,
  work: () => Promise<void>,
): Promise<Seen> {
  const seen = { reads: 0, mixed: 0, missing: 0 };
  const found = new Set<string | null>();
  let isOver = false;
  const loop = async (): Promise<void> => {
    while (!isOver) {
      const files = await read();
      seen.reads += 1;
      if (files.includes(null)) seen.missing += 1;
      else if (new Set(files).size > 1) seen.mixed += 1;
      for (const each of files) found.add(each);
    }
  };
  const loops = Array.from({ length: readers }, loop);
  const seconds = await secondsOf(work).finally(() => (isOver = true));
  await Promise.all(loops);
  return { ...seen, generations: found.size, seconds };
}

async function publishAll(publish: (n: number) => Promise<void>): Promise<void> {
  for (let n = 1; n <= generations; n += 1) await publish(n);
}

function reportReads(
  t: Test,
  how: string,
  { reads, mixed, missing, generations: seen, seconds }: Seen,
): void {
  const rate = Math.round(reads / seconds);
  t.comment(
    `report: ${reads} reads of ${names.length} files ${how} (${rate} a second), of ${seen} of ${generations} generations: ${mixed} mixed, ${missing} not found`,
  );
}

t.test('through the file system: readers see no mixture, and no missing file', async (t) => {
  const directory = publicDirectory(t);
  const root = await localStorage(directory);
  await publishGeneration(root, 0);
  const program = [directoryReader, path.join(directory, site), 'releases', ...names];
  const seen = await seenByProcesses(1, program, async () =>
    publishAll(async (n) => publishGeneration(root, n)),
  );
  t.match(seen, { mixed: 0, missing: 0 });
  t.ok(seen.generations > 2, `${seen.reads} reads of ${seen.generations} generations`);
  reportReads(t, 'through the file system', seen);
});

t.test('the same readers see mixtures with publication in place', async (t) => {
  const directory = publicDirectory(t);
  const root = await localStorage(directory);
  await publishInPlace(root, 0);
  const program = [directoryReader, path.join(directory, site), 'in_place', ...names];
  const seen = await seenByProcesses(1, program, async () =>
    publishAll(async (n) => publishInPlace(root, n)),
  );
  t.ok(seen.mixed > 0, `${seen.mixed} of ${seen.reads} reads`);
  reportReads(t, 'in place through the file system', seen);
});

/** Connections are kept for as long as the test takes. */
const kept = 'keepalive_requests 1000000000;';

t.test('through nginx, with the release that the page came from', async (t) => {
  const directory = publicDirectory(t);
  const root = await localStorage(directory);
  await publishGeneration(root, 0);
  const asOnThePage = inner(blocksOf('nginx', `${directory}/${site}`)[1] ?? '');
  const port = await startNginx(t, { server: `${asOnThePage}\n${kept}` });
  const program = [webReader, String(port), 'releases', '8', ...names];
  const seen = await seenByProcesses(2, program, async () =>
    publishAll(async (n) => publishGeneration(root, n)),
  );
  t.match(seen, { mixed: 0, missing: 0 });
  t.ok(seen.generations > 2, `${seen.reads} reads of ${seen.generations} generations`);
  reportReads(t, 'through nginx', seen);
});

t.test('the same readers see mixtures through nginx with publication in place', async (t) => {
  const directory = publicDirectory(t);
  const root = await localStorage(directory);
  await publishInPlace(root, 0);
  const port = await startNginx(t, { server: `root ${directory}/${site};\n${kept}` });
  const program = [webReader, String(port), 'in_place', '8', ...names];
  const seen = await seenByProcesses(2, program, async () =>
    publishAll(async (n) => publishInPlace(root, n)),
  );
  t.ok(seen.mixed > 0, `${seen.mixed} of ${seen.reads} reads`);
  reportReads(t, 'in place through nginx', seen);
});

t.test('over SFTP: readers see no mixture, and no missing file', async (t) => {
  const server = await startSshd(t);
  const directory = publicDirectory(t);
  const options = { clock: contextWith(testClock()).clock, log: contextWith(testClock()).log };
  const open = async (): Promise<Storage> => {
    const storage = await sftpStorage(sftpLocationOf(server, directory), {
      ...options,
      secrets: noSecrets,
    });
    t.teardown(() => storage.close());
    return storage;
  };
  const root = await open();
  const connections = [siteOf(await open()), siteOf(await open()), siteOf(await open())];
  await publishGeneration(root, 0);
  let turn = 0;
  const read = async (): Promise<(string | null)[]> => {
    turn += 1;
    const readers = connections[turn % connections.length] ?? siteOf(root);
    const target = listedKey((await readers.readLink!(listedKey('current'))) ?? 'nowhere');
    const file = async (name: string): Promise<string | null> =>
      readAll(readers, joinKey(target, name), 100).then(
        (bytes) => bytes.toString(),
        () => null,
      );
    return Promise.all(names.map(file));
  };
  const seen = await seenBy(read, 6, async () => publishAll(async (n) => publishGeneration(root, n)));
  t.match(seen, { mixed: 0, missing: 0 });
  t.ok(seen.generations > 2, `${seen.reads} reads of ${seen.generations} generations`);
  reportReads(t, 'over SFTP', seen);
});

/** The blocks of one language on the page, with another directory. */
function blocksOf(language: string, directory: string): string[] {
  const page = readFileSync('docs/releases.md', 'utf8');
  return [...page.matchAll(new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\`$`, 'gm'))].map(([, text = '']) =>
    text.replaceAll('/srv/www/site', directory),
  );
}

/** The object in the braces of the first line, without the port. */
function inner(block: string): string {
  return block
    .split('\n')
    .slice(1, -2)
    .join('\n')
    .replace(/^.*listen 8080;$/m, '');
}

t.test('nginx and Caddy follow the pointer as documented', async (t) => {
  const directory = publicDirectory(t);
  const root = await localStorage(directory);
  const at = path.join(directory, site);
  const [whole = '', each = ''] = [blocksOf('nginx', at)[0], blocksOf('nginx', directory)[2]];
  const nginx = `http://127.0.0.1:${await startNginx(t, { server: inner(whole) })}`;
  const nginxEach = `http://127.0.0.1:${await startNginx(t, { server: each })}/${site}`;
  const caddy = await startCaddy(t, inner(blocksOf('caddyfile', at)[0] ?? ''));
  const urls = [nginx, nginxEach, caddy];
  for (const n of [1, 2, 3]) {
    await publishGeneration(root, n);
    for (const url of urls)
      for (const name of names) {
        const answer = await fetch(`${url}/${name}`);
        t.same([answer.status, await answer.text()], [200, String(n)], `${url}/${name}`);
      }
  }
  t.ok(existsSync(path.join(at, 'current/.publisher.json')));
  for (const url of urls)
    t.equal((await fetch(`${url}/.publisher.json`)).status, 404, 'the catalog is hidden');

  const channel = { name: 'beta', ttlMs: 3_600_000 };
  const { error } = await publishAsRelease(root, 4, { ...linger, bundle: generation(4), channel });
  t.equal(error, null);
  const previews = await startNginx(t, { server: inner(blocksOf('nginx', at)[3] ?? '') });
  for (const name of names)
    t.same(await getFrom(previews, 'beta.preview.example.org', name), [200, '4'], 'by the host of a channel');
  t.equal((await getFrom(previews, 'beta.preview.example.org', '.publisher.json'))[0], 404);
  t.equal((await getFrom(previews, 'gamma.preview.example.org', 'index.html'))[0], 404);
  t.equal(await (await fetch(`${nginx}/index.html`)).text(), '3', 'other readers do not see it');
});

/** Sends a request like a browser that knows the server by this name. Returns status and body. */
async function getFrom(port: number, host: string, name: string): Promise<[number | undefined, string]> {
  const request = http.get({ port, path: `/${name}`, headers: { host } });
  const [answer] = (await once(request, 'response')) as [http.IncomingMessage];
  let body = '';
  for await (const chunk of answer) body += String(chunk);
  return [answer.statusCode, body];
}
