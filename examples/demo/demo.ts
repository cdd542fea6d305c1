/**
 * `npm run demo [-- --once] [--port PORT]`: the daemon, a producer and two kinds of destination in one
 * terminal, with nothing installed and nothing left running.
 *
 * With `--once` it exits by itself, with 0 only if everything was published. Otherwise it runs until Ctrl-C.
 * The daemon listens on PORT. Without one, it listens on 8080 or, if that port is in use, on any free port.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import express from 'express';
import { pino } from 'pino';
import { listen } from '../../src/api/http/listen.ts';
import { run } from '../../src/cli/commands/publish/run.ts';
import { type RunningServer, serve } from '../../src/cli/daemon/serve.ts';
import { columns, makeOutput } from '../../src/cli/output/output.ts';
import { systemClock } from '../../src/core/lib/clock.ts';
import { withReleasers } from '../../src/core/lib/lifecycle.ts';
import { logControl, silentLog } from '../../src/core/lib/log.ts';
import { formatSize } from '../../src/core/lib/settings/sizes-and-durations.ts';
import { plural } from '../../src/core/lib/text.ts';
import { keepProducing } from './live.ts';
import {
  follow,
  pack,
  type PackedBundle,
  type RunRecord,
  shellWord,
  upload,
  uploadWithCurl,
} from './producer.ts';
import { feedWeather, weatherReads } from './weather.ts';

const bundles = path.join(import.meta.dirname, 'bundles');
const templates = path.join(import.meta.dirname, '../../templates/weather');
const preferredPort = 8080;
const runDeadlineMs = 60_000;

const { style } = makeOutput({ json: false, color: true });
const stop = new AbortController();
process.on('SIGINT', () => {
  if (stop.signal.aborted) process.exit(130);
  stop.abort();
});

process.exitCode = await demo(readArguments());

interface Arguments {
  isOnce: boolean;
  port: number | undefined;
}

function readArguments(): Arguments {
  try {
    const options = { once: { type: 'boolean', default: false }, port: { type: 'string' } } as const;
    const { once: isOnce, port } = parseArgs({ options }).values;
    if (port !== undefined && !(/^\d+$/.test(port) && Number(port) <= 65_535))
      throw new Error(`--port is not a port: ${port}`);
    return { isOnce, port: port === undefined ? undefined : Number(port) };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    console.error(`${reason}\nusage: npm run demo [-- --once] [--port PORT]`);
    process.exit(2);
  }
}

async function demo({ isOnce, port }: Arguments): Promise<number> {
  try {
    return await withReleasers(async (onRelease) => {
      const directory = await mkdtemp(path.join(tmpdir(), 'waybill-demo-'));
      const web = await listen(
        express().use(express.static(path.join(directory, 'public'))),
        {
          host: '127.0.0.1',
          port: 0,
          maxConnections: 100,
          uploadTimeoutMs: 60_000,
        },
        { clock: systemClock, log: silentLog, logging: logControl(), metrics: null },
      );
      onRelease(() => web.close());
      const token = randomUUID();
      await feedWeather(path.join(directory, 'weather'));
      const { served, configFile } = await startDaemon(directory, { web: web.origin, token, port });
      onRelease(async () => {
        await served.close();
      });
      introduce({ directory, daemon: served.url, token, web: web.origin, configFile });

      const runUrl = await uploadBundle(directory, served.url, token);
      const uploaded = await showRun(runUrl);
      const ran = await runTwice(configFile);
      const isOnTheWeb = await lookUp(web.origin, [
        'site/session-42/index.html',
        'latest/pictures/forecast.png',
        'library/session-41/notes/recap.txt',
      ]);
      const isWeather = await readWeather(served.url);
      const isPublished = uploaded && ran && isOnTheWeb && isWeather;
      pointTheWay({ directory, web: web.origin, daemon: served.url, token, runUrl, configFile, isOnce });
      conclude(isPublished);
      if (isOnce) return isPublished ? 0 : 1;

      const url = `${served.url}v1/pipelines/uploads/upload`;
      const bundle = path.join(bundles, 'session-42');
      const producing = keepProducing({ bundle, directory, url, token }, stop.signal);
      tell('', `${style.bold('Ctrl-C')} ends the demo; what it published stays in ${directory}`);
      await once(stop.signal, 'abort');
      tell('', 'stopping');
      await producing;
      return isPublished ? 0 : 1;
    });
  } catch (error) {
    if (stop.signal.aborted) return 130;
    console.error(`\n${style.red('failed')}  ${error instanceof Error ? error.message : String(error)}`);
    return 1;
  }
}

/** Starts the daemon of `waybill serve`. */
async function startDaemon(
  directory: string,
  { web, token, port }: { web: string; token: string; port: number | undefined },
): Promise<{ served: RunningServer; configFile: string }> {
  const configFile = path.join(directory, 'waybill.yml');
  const log = pino(
    { level: 'info' },
    pino.destination({ dest: path.join(directory, 'daemon.log'), sync: true }),
  );
  const start = async (port: number): Promise<RunningServer> => {
    await writeFile(configFile, configuration(port, web));
    return serve({ configFile, log, env: { ...process.env, WAYBILL_TOKEN_DEMO: token } });
  };
  const served = await (port === undefined ? start(preferredPort).catch(async () => start(0)) : start(port));
  return { served, configFile };
}

function configuration(port: number, web: string): string {
  return `# Made by "npm run demo". Paths are relative to this file.
upload_tokens:
  - { id: producer, value_env: WAYBILL_TOKEN_DEMO, pipelines: [uploads, library] }

databases: # the weather that the daemon serves; an example feeder has filled it
  - { name: samples, driver: pglite, directory: ./weather }
templates: { base_dir: ${JSON.stringify(templates)} }

server:
  http: { listen: "127.0.0.1:${port}" }
  staging: { directory: ./staging }
  queue: { driver: embedded, directory: ./queue }

pipelines:
  - id: uploads # producers push bundles over HTTP
    source: { backend: http_upload, max_upload_size: 64MiB }
    destinations:
      - { id: site, backend: local, path: ./public/site, mapping: preserve_relative, public_base_url: ${web}/site/,
          outputs: { checksums: true, index: true, archive: true, scene_map_page: true } }
      - { id: latest, backend: local, path: ./public/latest, mapping: fixed, workflow: replacement,
          public_base_url: ${web}/latest/, outputs: { checksums: true, index: true, archive: true, scene_map_page: true } }

  - id: library # bundles are found below a directory
    source: { backend: local, path: ${JSON.stringify(bundles)} }
    destinations:
      - { id: library, backend: local, path: ./public/library, mapping: preserve_relative,
          public_base_url: ${web}/library/, outputs: { checksums: true, index: true, archive: true, scene_map_page: true } }
      - { id: newest, backend: local, path: ./public/newest, mapping: fixed,
          public_base_url: ${web}/newest/, outputs: { checksums: true, index: true, archive: true, scene_map_page: true } }
`;
}

function introduce({
  directory,
  daemon,
  token,
  web,
  configFile,
}: Pick<Whereabouts, 'directory' | 'daemon' | 'token' | 'web' | 'configFile'>): void {
  tell(style.bold('waybill demo'), '');
  table([
    ['console', `${daemon}console`, 'the first thing to look at'],
    ['token', token, 'to log in with'],
    ['directory', directory, 'fresh, and everything is in it'],
    ['configuration', path.relative(directory, configFile), ''],
    ['daemon', daemon, 'takes uploads'],
    ['web server', `${web}/`, 'stands for yours: serves the destinations'],
  ]);
  tell('', '  Lines after $ do the same from a shell: paste them into another terminal, in this directory.');
}

/** Returns the URL of the run. */
async function uploadBundle(directory: string, daemon: string, token: string): Promise<string> {
  step(1, 'A producer packs a bundle and uploads it');
  const bundle = await pack(path.join(bundles, 'session-42'), path.join(directory, 'session-42.tar.gz'));
  tellContents(bundle);
  const request = { url: `${daemon}v1/pipelines/uploads/upload`, token, archive: bundle.archive };
  tell('', ...shown(uploadWithCurl(request)), '');
  const runId = await upload(request, AbortSignal.any([stop.signal, AbortSignal.timeout(runDeadlineMs)]));
  tell(`  ${style.green('202 Accepted')}  the bundle is complete and valid; run ${runId}`);
  return `${daemon}runs/${runId}`;
}

function tellContents({ archive, size, files }: PackedBundle): void {
  table(files.map((file) => [file.path, file.kind, formatSize(file.size)]));
  tell(`  packed: ${archive}, ${formatSize(size)}`);
}

/** True where both destinations have it. */
async function showRun(url: string): Promise<boolean> {
  step(2, 'The daemon publishes it to two destinations, side by side');
  tell(...shown([`curl ${url}`]), '');
  const record = await follow(url, AbortSignal.any([stop.signal, AbortSignal.timeout(runDeadlineMs)]));
  const mappings: Record<string, string> = {
    site: 'preserve_relative: every bundle at its own path',
    latest: 'fixed: the newest bundle at the root',
  };
  table(
    record.destinations.map(
      ({ destination_id: id, action, destination_path: at, outputs_written: count, error }) => [
        error === null ? style.green('✓') : style.red('✗'),
        id,
        action,
        `target=${at ?? '?'}`,
        plural(count, 'output'),
        error?.message ?? mappings[id] ?? '',
      ],
    ),
  );
  tell(`  run ${record.status === 'succeeded' ? style.green('succeeded') : style.red(record.status)}`);
  return isComplete(record);
}

function isComplete({ status, destinations }: RunRecord): boolean {
  return (
    status === 'succeeded' &&
    destinations.length === 2 &&
    destinations.every(({ action }) => action === 'publish_new')
  );
}

/** True where both runs did all they should. */
async function runTwice(configFile: string): Promise<boolean> {
  step(3, 'The same from a directory, without the daemon');
  const command = `node dist/cli/main.js run --config ${shellWord(configFile)} --pipeline library`;
  const options = {
    config: configFile,
    pipeline: ['library'],
    format: 'text',
    color: true,
    verbose: false,
    dryRun: false,
    force: false,
    allowRemovals: false,
  } as const;
  const io = { output: makeOutput({ json: false, color: true }), signal: stop.signal };
  tell(...shown([command]), '');
  const first = await run({ ...options, pipeline: [...options.pipeline] }, io);
  stop.signal.throwIfAborted();
  step(4, 'Once more: nothing has changed, so nothing is written');
  tell(...shown([command]), '');
  const second = await run({ ...options, pipeline: [...options.pipeline] }, io);
  stop.signal.throwIfAborted();
  return first === 0 && second === 0;
}

/** True where the web server finds each of the published files. */
async function lookUp(web: string, paths: readonly string[]): Promise<boolean> {
  const answers = await Promise.all(
    paths.map(async (file) => fetch(`${web}/${file}`, { method: 'HEAD', signal: stop.signal })),
  );
  return answers.every(({ ok }) => ok);
}

/** True where each read of three families gives data. */
async function readWeather(daemon: string): Promise<boolean> {
  step(5, 'The daemon serves weather of a database');
  tell(...weatherReads.flatMap((read) => shown([`curl '${daemon}${read}'`])), '');
  const texts = await Promise.all(
    weatherReads.map(async (read) => {
      const answer = await fetch(`${daemon}${read}`, { signal: stop.signal });
      return answer.ok ? answer.text() : '';
    }),
  );
  tell(
    ...(texts[0] ?? '')
      .trimEnd()
      .split('\n')
      .map((line) => `  ${line}`),
  );
  return texts.every((text) => text !== '' && !/is available\.|xsi:nil="true"\/><\/response>/.test(text));
}

interface Whereabouts {
  directory: string;
  web: string;
  daemon: string;
  token: string;
  runUrl: string;
  configFile: string;
  isOnce: boolean;
}

function pointTheWay({ directory, web, daemon, token, runUrl, configFile, isOnce }: Whereabouts): void {
  const site = path.join(directory, 'public/site/session-42');
  tell('', style.bold('Where to look'));
  table([
    ...(isOnce
      ? []
      : [
          ['uploaded bundle', `${web}/site/session-42/index.html`],
          ['newest bundle', `${web}/latest/index.html`],
          ['weather map', `${daemon}weather`],
          ['the picture', `${web}/latest/pictures/forecast.png`],
          ['a scene map', `${web}/latest/maps/scenes.html`],
          ['readiness', `${daemon}healthz`],
        ]),
    ['files', `${site}/`],
    ['their catalog', `${site}/.publisher.json`],
    ['log of the daemon', path.join(directory, 'daemon.log')],
  ]);
  tell('', style.bold('To try'), '');
  tell(...shown([`(cd ${shellWord(site)} && sha256sum -c SHA256SUMS)`]));
  tell(...shown([`node dist/cli/main.js verify --config ${shellWord(configFile)} --pipeline library`]));
  if (isOnce) return;
  const archive = path.join(directory, 'session-42.tar.gz');
  tell(...shown(uploadWithCurl({ url: `${daemon}v1/pipelines/uploads/upload`, token, archive })));
  tell(...shown([`curl ${runUrl}`]));
}

function conclude(isPublished: boolean): void {
  tell(
    '',
    isPublished
      ? `${style.green('done')}  everything was published`
      : `${style.red('failed')}  not everything was published; the lines above say what`,
  );
}

function step(number: number, title: string): void {
  tell('', `${style.cyan(String(number))}  ${style.bold(title)}`, '');
}

/** A command as a shell shows it; what follows the `$` can be pasted. */
function shown(lines: readonly string[]): string[] {
  return lines.map((line, index) => style.dim(index === 0 ? `  $ ${line}` : `    ${line}`));
}

function table(rows: readonly (readonly string[])[]): void {
  tell(...columns(rows, '  '));
}

function tell(...lines: string[]): void {
  for (const line of lines) process.stdout.write(`${line}\n`);
}
