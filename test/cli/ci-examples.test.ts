import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, utimesSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { type Daemon, startDaemon } from './daemon.ts';
import { installLinked, packWaybill } from './packed.ts';
import type { Ended } from './process.ts';

/*
 * The shell commands of examples/ci, extracted from the YAML as CI runners do. npm really installs the
 * package if CI=true. Otherwise, the test puts the package where npm would, with the dependencies of this
 * clone.
 */

const isWhole = process.env['CI'] === 'true';
const token = 'a-token-of-all-producers';
const config = [
  'upload_tokens: [{id: ci, value_env: TOKEN_CI, pipelines: [site, blocked], scopes: [upload, read]}]',
  'server: {http: {listen: "127.0.0.1:0"}, staging: {directory: ./staging}}',
  'pipelines:',
  '  - {id: site, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./web}]}',
  '  - {id: blocked, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./blocked}]}',
].join('\n');

interface World {
  place: string;
  /** The job's directory, which contains `the site`. */
  work: string;
  tarball: string;
  daemon: Daemon;
}

async function startWorld(t: Test): Promise<World> {
  const place = t.testdir({
    'c.yml': config,
    package: {},
    blocked: { n: { 'diary.txt': 'not yours' } },
    work: { 'the site': { 'index.html': '<p>' } },
  });
  const tarball = packWaybill(path.join(place, 'package'));
  const daemon = await startDaemon(t, place, { TOKEN_CI: token });
  return { place, work: path.join(place, 'work'), tarball, daemon };
}

/** npm errors that are not caused by the package: the registry is missing, unreachable or incomplete. */
const withoutRegistry =
  /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ERR_SOCKET_TIMEOUT|EIDLETIMEOUT|ENETUNREACH|EHOSTUNREACH|ETARGET|ENOVERSIONS|E4\d\d|E5\d\d|ENOTCACHED|CERT_\w+|\w+_CERT\w*)\b/;

/**
 * The exit code of `timeout`, well before the file counts as hanging. Such a slow registry counts as
 * missing.
 */
const tookTooLong = 124;
const maxSeconds = '120';

/** Runs the installation step, or does the equivalent. Afterwards, `prefix` has the program. */
function install(
  t: Test,
  { tarball }: World,
  prefix: string,
  step: (env: Record<string, string>) => Ended,
): void {
  if (isWhole) {
    // The settings that lead npm to its registry, without the environment of the tests.
    const own = { ...(process.env as Record<string, string>), NODE_OPTIONS: '' };
    const { status, stderr } = step({
      ...own,
      npm_config_fetch_retries: '1',
      npm_config_fetch_timeout: '60000',
    });
    if (status === 0) return;
    if (status !== tookTooLong && !withoutRegistry.test(stderr))
      throw new Error(`npm does not install the package:\n${stderr}`);
    t.comment(`npm had no registry to install from:\n${stderr}`);
    rmSync(prefix, { recursive: true, force: true, maxRetries: 20 });
  }
  installLinked(tarball, prefix);
}

function shell({ place, work }: World, command: readonly string[], env: Record<string, string>): Ended {
  const { status, stdout, stderr } = spawnSync('timeout', [maxSeconds, ...command], {
    cwd: work,
    encoding: 'utf8',
    // Git does not search further up, where it could find the repository of this clone.
    env: { PATH: process.env['PATH'], HOME: place, GIT_CEILING_DIRECTORIES: place, ...env },
  });
  return { status, stdout, stderr };
}

/** Both examples must publish once, however often they run, and report failures. */
function shows(t: Test, world: World, push: (env: Record<string, string>) => Ended): void {
  const { url } = world.daemon;
  const settings = {
    WAYBILL_URL: url,
    WAYBILL_TOKEN: token,
    WAYBILL_PIPELINE: 'site',
    WAYBILL_DIRECTORY: './the site',
    WAYBILL_NAME: 'a name',
  };
  t.match(push({ ...settings, WAYBILL_DRY_RUN: 'true' }), {
    status: 0,
    stdout: /web\n.*target=a name +publish_new/,
  });
  t.notOk(existsSync(path.join(world.place, 'web')), 'nothing is published by a dry run');
  t.match(push(settings), {
    status: 0,
    stdout: /^succeeded .*\n(?: {2}.*\n)? {2}\+ web {2}target=a name {2}publish_new/m,
  });
  t.equal(readFileSync(path.join(world.place, 'web/a name/index.html'), 'utf8'), '<p>');
  t.match(
    push(settings),
    { status: 0, stderr: /accepted before as site\./ },
    'a repeated job publishes once',
  );

  const commit = { ...settings, SOURCE_DATE_EPOCH: '1795136523', WAYBILL_NAME: 'of a commit' };
  t.match(push(commit), { status: 0, stdout: /publish_new/ });
  utimesSync(path.join(world.work, 'the site', 'index.html'), 1, 1);
  t.match(
    push(commit),
    { status: 0, stderr: /accepted before/ },
    'another checkout of the commit publishes to the same path',
  );

  t.match(push({ ...settings, WAYBILL_NAME: '' }), { status: 0, stdout: /^succeeded / });
  t.equal(readdirSync(path.join(world.place, 'web')).length, 3, 'without a name, it has its own path');

  const failed = push({ ...settings, WAYBILL_PIPELINE: 'blocked', WAYBILL_NAME: 'n' });
  t.match(failed, { status: 1, stdout: /unmanaged_content/ });
  const refused = push({ ...settings, WAYBILL_TOKEN: 'wrong-token' });
  t.match(refused, { status: 2, stdout: '', stderr: /next {3}.*WAYBILL_TOKEN/ });
  t.notMatch(`${refused.stdout}${refused.stderr}`, 'wrong-token');
  const hostile = push({ ...settings, WAYBILL_NAME: '"; touch made; $(touch made) `touch made`' });
  t.notOk(existsSync(path.join(world.work, 'made')), 'no setting is executed as a command');
  t.equal(hostile.status, 0, 'it is an ordinary name');
}

interface Action {
  inputs: Record<string, { required?: boolean; default?: string }>;
  runs: { using: string; steps: { name: string; shell: string; env: Record<string, string>; run: string }[] };
}

t.test('the composite action installs the package and publishes', async (t) => {
  const world = await startWorld(t);
  const { inputs, runs } = parse(readFileSync('examples/ci/action.yml', 'utf8')) as Action;
  t.equal(runs.using, 'composite');
  t.equal(runs.steps.length, 2);
  const [installing, publishing] = runs.steps;
  const temp = path.join(world.place, 'temp');
  mkdirSync(temp);

  /** Runs one step as the runner does: replaces inputs in `env`, and passes `run` to bash as a file. */
  const step = (
    given: Action['runs']['steps'][number] | undefined,
    values: Record<string, string>,
    more: Record<string, string>,
  ): Ended => {
    const env: Record<string, string> = { ...more, RUNNER_TEMP: temp };
    for (const [name, value] of Object.entries(given?.env ?? {}))
      env[name] = value.replace(/^\$\{\{ inputs\.([\w-]+) \}\}$/, (_all, input: string) => {
        t.ok(Object.hasOwn(inputs, input), `${input} is declared`);
        return values[input] ?? inputs[input]?.default ?? '';
      });
    t.equal(given?.shell, 'bash');
    t.notMatch(given?.run, '${{', 'inputs are passed as environment variables');
    return shell(
      world,
      ['bash', '--noprofile', '--norc', '-eo', 'pipefail', '-c', given?.run ?? 'false'],
      env,
    );
  };
  install(t, world, path.join(temp, 'waybill'), (env) => step(installing, { package: world.tarball }, env));
  shows(t, world, (settings) => {
    const {
      WAYBILL_URL: url = '',
      WAYBILL_TOKEN: value = '',
      WAYBILL_PIPELINE: pipeline = '',
      ...others
    } = settings;
    const { WAYBILL_DIRECTORY: directory = '', WAYBILL_NAME: name = '', ...unnamed } = others;
    const { WAYBILL_DRY_RUN: dryRun, ...more } = unnamed;
    const given: Record<string, string> = dryRun === undefined ? {} : { 'dry-run': dryRun };
    return step(publishing, { url, token: value, pipeline, directory, name, ...given }, more);
  });
});

t.test('the GitLab job installs the package and publishes', async (t) => {
  const world = await startWorld(t);
  const { '.waybill-push': job } = parse(readFileSync('examples/ci/waybill.gitlab-ci.yml', 'utf8')) as Record<
    string,
    { variables: Record<string, string>; script: string[] }
  >;
  const script = job?.script ?? [];
  const installing = script.findIndex((line) => line.startsWith('npm install '));
  t.equal(installing, 1);
  const WAYBILL_PREFIX = path.join(world.place, 'prefix');
  // One shell runs all lines and stops at the first failure, in images with or without bash.
  const run = (lines: readonly string[], settings: Record<string, string>): Ended =>
    shell(world, ['sh', '-ec', lines.join('\n')], { ...job?.variables, WAYBILL_PREFIX, ...settings });
  install(t, world, WAYBILL_PREFIX, (env) =>
    run(script.slice(0, installing + 1), { ...env, WAYBILL_PACKAGE: world.tarball }),
  );
  const publishing = script.filter((_line, index) => index !== installing);
  shows(t, world, (settings) => run(publishing, settings));
});

t.test('the page about them lists their real inputs', async (t) => {
  const [workflow, job] = [
    ...readFileSync('examples/ci/README.md', 'utf8').matchAll(/```yaml\n([^]*?)```/g),
  ].map(([, text = '']) => parse(text) as unknown);
  const { inputs } = parse(readFileSync('examples/ci/action.yml', 'utf8')) as Action;
  const { jobs } = workflow as { jobs: { publish: { steps: { uses: string; with?: object }[] } } };
  const used = jobs.publish.steps.find(({ uses }) => uses === './.github/actions/waybill-push')?.with ?? {};
  t.same(
    Object.keys(used).filter((name) => !Object.hasOwn(inputs, name)),
    [],
  );
  const required = Object.keys(inputs).filter((name) => inputs[name]?.required === true);
  t.same(
    required.filter((name) => !Object.hasOwn(used, name)),
    [],
  );

  const { publish } = job as { publish: { extends: string; variables: object } };
  const file = parse(readFileSync('examples/ci/waybill.gitlab-ci.yml', 'utf8')) as Record<
    string,
    { variables: Record<string, string> }
  >;
  const known = Object.keys(file[publish.extends]?.variables ?? {});
  t.same(
    Object.keys(publish.variables).filter((name) => !known.includes(name)),
    [],
  );
});
