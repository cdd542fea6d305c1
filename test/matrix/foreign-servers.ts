import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Test } from 'tap';
import type { MatrixName } from '../../scripts/matrices/matrices.ts';
import { type Ended, program } from '../cli/process.ts';
import { MissingService } from '../services/debian.ts';
import { recordNotInstalled } from '../support/matrix.ts';

/** The tested features of a server, as cells of a table. */
export interface Found {
  /** How a file is replaced, as reported by `waybill inspect --probe`. */
  replaces: string;
  /** The supported conditions, likewise. */
  'conditional writes': string;
  /** Whether releases can be published there. */
  releases: 'yes' | 'refused';
  /** Whether it authenticates clients: another key is rejected. */
  'refuses strangers': 'yes' | 'no';
}

/** A location on one server, as a destination of the configuration without its id. */
export interface Destination {
  settings: string;
  env: Record<string, string>;
  /** The same with a key that the server does not know. */
  stranger: { settings: string; env: Record<string, string> };
}

type Start<T> = (t: Pick<Test, 'teardown'>) => Promise<T>;

/**
 * Starts all servers concurrently, and passes each to its test. If a server cannot be installed, its row
 * says so, and only its test is skipped (in CI, it fails).
 */
export function startAll<N extends string, T>(
  t: Pick<Test, 'teardown'>,
  matrix: MatrixName,
  servers: Readonly<Record<N, Start<T>>>,
): Record<N, () => Promise<T>> {
  const starts = Object.entries<Start<T>>(servers).map(([name, start]) => {
    const starting = start(t);
    // Reported by the test of the server.
    starting.catch(() => undefined);
    const started = async (): Promise<T> => {
      try {
        return await starting;
      } catch (error) {
        if (error instanceof MissingService) recordNotInstalled(matrix, name);
        throw error;
      }
    };
    return [name, started];
  });
  return Object.fromEntries(starts) as Record<N, () => Promise<T>>;
}

/**
 * Publishes a small site to a server with the built program, then publishes it again, changes, verifies and
 * prunes it, like a user. Does the same with releases, and with an unknown key. Returns the results.
 */
export async function publishThere(t: Test, { settings, env, stranger }: Destination): Promise<Found> {
  const place = t.testdir({});
  site(place, 'first');
  writeFileSync(path.join(place, 'c.yml'), configuration(settings));
  const call = (...args: string[]): Promise<Ended> => run(place, [...args, '--format', 'json'], env);
  const actions = async (what: string): Promise<string[]> => {
    const ended = await call('run', '-c', 'c.yml');
    t.equal(ended.status, 0, `${what}: ${ended.status === 0 ? '' : ended.stdout + ended.stderr}`);
    return actionsOf(JSON.parse(ended.stdout));
  };
  t.same(await actions('the first publication'), ['publish_new']);
  const probed = foundIn(t, await call('inspect', '-c', 'c.yml', '-p', 'maps', '--probe'));
  t.same(await actions('the same again'), ['skip_same'], 'nothing is sent twice');
  site(place, 'second');
  t.same(await actions('the changes'), ['upsert_additive']);
  const verified = await call('verify', '-c', 'c.yml', '-p', 'maps', '-d', 'there');
  t.equal(verified.status, 0, `every byte matches the catalog: ${verified.stdout}`);
  const pruned = await call('prune', '-c', 'c.yml', '-p', 'maps', '-d', 'there', '--apply');
  t.equal(pruned.status, 0, `old files are pruned: ${pruned.stderr}`);
  const last = await call('verify', '-c', 'c.yml', '-p', 'maps', '-d', 'there');
  t.equal(last.status, 0, `all remaining files are unchanged: ${last.stdout}`);
  return {
    ...probed,
    releases: await releasesThere(t, place, { settings, env }),
    'refuses strangers': await refusesStrangers(t, place, stranger),
  };
}

/** A publication to a server that does not support publishing. */
export async function publicationRefused(
  t: Test,
  { settings, env }: Pick<Destination, 'settings' | 'env'>,
): Promise<{ status: number | null; said: string }> {
  const place = t.testdir({});
  site(place, 'first');
  writeFileSync(path.join(place, 'c.yml'), configuration(settings));
  const { status, stdout, stderr } = await run(place, ['run', '-c', 'c.yml', '--format', 'json'], env);
  return { status, said: stdout + stderr };
}

/**
 * The cells of its row: the results so far. Without a failure, the server passed publish, verify and prune,
 * and the sample of the storage contract.
 */
export function cells(
  t: Pick<Test, 'passing'>,
  found: Found,
  lacks: readonly string[],
): Record<string, string> {
  const holds = t.passing() ? 'yes' : 'no';
  const contract = t.passing() && lacks.length > 0 ? `all but ${lacks.length}` : holds;
  return { ...found, 'publish, verify, prune': holds, 'storage contract': contract };
}

/** Releases are published, or rejected with a fix before anything is written. */
async function releasesThere(
  t: Test,
  place: string,
  { settings, env }: Pick<Destination, 'settings' | 'env'>,
): Promise<Found['releases']> {
  const below = settings.replace(/\blive\b/, 'live/releases');
  writeFileSync(path.join(place, 'r.yml'), configuration(`${below}, layout: releases`, false));
  const ended = await run(place, ['run', '-c', 'r.yml', '--format', 'json'], env);
  if (ended.status === 0) return 'yes';
  const said = ended.stdout + ended.stderr;
  t.match(
    said,
    /symbolic links cannot be replaced|condition|posix-rename/,
    'a refusal names the missing feature',
  );
  t.match(said, /layout: in_place/, 'and the fix');
  return 'refused';
}

async function refusesStrangers(
  t: Test,
  place: string,
  { settings, env }: Destination['stranger'],
): Promise<Found['refuses strangers']> {
  writeFileSync(path.join(place, 's.yml'), configuration(settings));
  const ended = await run(place, ['run', '-c', 's.yml', '--dry-run', '--format', 'json'], env);
  if (ended.status === 0) return 'no';
  t.match(ended.stdout, /storage_denied/, 'rejected clients get the reason');
  return 'yes';
}

/** A destination that may be pruned, which is impossible with releases. */
function configuration(settings: string, mayPrune = true): string {
  const retention = mayPrune ? ', retention: {prune: {enabled: true, keep_latest: 1}}' : '';
  return `pipelines:
  - id: maps
    source: {backend: local, path: ./source}
    destinations:
      - {id: there, ${settings}, mapping: fixed, workflow: additive, outputs: {checksums: true, index: true}${retention}}
`;
}

/** A bundle with one file that is large enough to be sent in parts. */
function site(place: string, text: string): void {
  const bundle = path.join(place, 'source/one');
  mkdirSync(path.join(bundle, 'maps'), { recursive: true });
  const files = {
    'readme.txt': `${text}\n`,
    'maps/größe +1%.json': '{"size": 1}',
    'maps/world.bin': Buffer.alloc((17 << 20) + 5, text),
    empty: '',
  };
  for (const [name, content] of Object.entries(files)) writeFileSync(path.join(bundle, name), content);
  const created = text === 'first' ? '2026-11-20T01:02:03Z' : '2026-11-21T01:02:03Z';
  const manifest = { schema_version: 1, created, files: Object.keys(files) };
  writeFileSync(path.join(bundle, 'manifest.json'), JSON.stringify(manifest));
}

interface Probed {
  probes: {
    destination_id: string | null;
    probe: {
      rename: string;
      conditional_writes: string | null;
      rights: Record<string, { answer: string; error: { message: string } | null }>;
    } | null;
    error: { message: string } | null;
  }[];
}

function foundIn(t: Test, { status, stdout, stderr }: Ended): Pick<Found, 'replaces' | 'conditional writes'> {
  t.equal(status, 0, `inspect --probe: ${stderr}`);
  const { probes } = JSON.parse(stdout) as Probed;
  const there = probes.find(({ destination_id }) => destination_id === 'there');
  if (there === undefined || there.probe === null) throw new Error(`not opened: ${stdout}`);
  const { rename, conditional_writes, rights } = there.probe;
  const refused = Object.entries(rights).filter(([, { answer }]) => answer === 'no');
  t.same(refused, [], 'all operations of a publication are allowed');
  return { replaces: replaces[rename] ?? rename, 'conditional writes': conditional_writes ?? 'unknown' };
}

/** In plain words. */
const replaces: Readonly<Record<string, string>> = {
  none: 'in one step',
  atomic: 'in one step',
  replace_in_steps: 'in steps',
};

function actionsOf(document: unknown): string[] {
  const { pipelines } = document as {
    pipelines: { destinations: { actions: { action: string }[] }[] }[];
  };
  return pipelines.flatMap(({ destinations }) =>
    destinations.flatMap(({ actions }) => actions.map(({ action }) => action)),
  );
}

/** Must be asynchronous, because a server may run in this process. */
async function run(cwd: string, args: string[], env: Record<string, string>): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [program, ...args],
      {
        cwd,
        env: { PATH: process.env['PATH'], HOME: cwd, ...env },
        maxBuffer: 1 << 26,
      },
      (error, stdout, stderr) => {
        const code = (error as { code?: unknown } | null)?.code;
        resolve({ status: error === null ? 0 : typeof code === 'number' ? code : null, stdout, stderr });
      },
    );
  });
}
