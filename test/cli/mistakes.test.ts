import { spawn } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { freePort } from '../services/free-port.ts';
import { sampleOf } from '../support/sampling.ts';
import { inConfiguration } from './mistakes/in-configuration.ts';
import { inEnvironment } from './mistakes/in-environment.ts';
import { inPublishing } from './mistakes/in-publishing.ts';
import { inStorage } from './mistakes/in-storage.ts';
import { inTyping } from './mistakes/in-typing.ts';
import type { Mistake } from './mistakes/mistake.ts';
import { document, type Ended, errorDocument, fingerprint, program, programForAll } from './process.ts';

/**
 * Makes common mistakes in the configuration and its environment. Message, location, fix and exit code are
 * in one golden file, as text and as JSON. A sample checks each as text, and a third of them as JSON.
 * `UPDATE_GOLDEN=1` rewrites the file; review the difference.
 */

const golden = new URL('../fixtures/mistakes.txt', import.meta.url);

const pages = createServer(({ url }, response) => {
  if (url?.startsWith('/gone') === true) {
    response.writeHead(404, { 'content-type': 'application/xml' });
    response.end('<Error><Code>NoSuchBucket</Code><BucketName>gone</BucketName></Error>');
    return;
  }
  response.setHeader('content-type', 'text/html');
  response.end('<!doctype html><title>Welcome to nginx!</title><p>It works.<br>');
});
await new Promise<void>((resolve) => void pages.listen(0, '127.0.0.1', resolve));
t.teardown(() => pages.close());
const port = (pages.address() as AddressInfo).port;
const servers = { pages: port, taken: port, closed: await freePort() };
const mistakes = [
  ...inConfiguration,
  ...inStorage(servers),
  ...inEnvironment(servers),
  ...inPublishing(servers),
  ...inTyping(servers),
];

const isUpdate = process.env['UPDATE_GOLDEN'] !== undefined;
const inJson = new Set(isUpdate ? mistakes : sampleOf(mistakes, Math.ceil(mistakes.length / 3), 'mistakes'));
const forAll = programForAll(t);
const sections = new Map<string, string>();

t.test('there are more than a hundred mistakes with distinct names', async (t) => {
  t.ok(mistakes.length >= 100, String(mistakes.length));
  t.equal(new Set(mistakes.map(({ name }) => name)).size, mistakes.length);
});

const pending = [...mistakes];
await Promise.all(
  [1, 2, 3].map(async () => {
    for (let next = pending.shift(); next !== undefined; next = pending.shift()) await meet(next);
  }),
);

async function meet(mistake: Mistake): Promise<void> {
  const { args = ['config', 'check', '-c', 'c.yml'], remedy } = mistake;
  const where = withoutPorts(mistake.place);
  await t.test(mistake.name, async (t) => {
    const asText = await waybill(mistake, args);
    const json =
      mistake.textOnly || !inJson.has(mistake)
        ? undefined
        : await waybill(mistake, [...args, '--format', 'json']);
    sections.set(mistake.name, section(mistake, args, asText, json));
    const all = asText.stdout + asText.stderr;
    t.match(all, where, 'the text has the location');
    t.match(all, remedy, 'the text has the fix');
    if (json === undefined) return;
    t.equal(json.status, asText.status, 'the exit code matches the text output');
    const printed = json.stdout === '' ? errorDocument(t, json) : document(t, json);
    // In JSON, line and column are separate values.
    const values = valuesOf(printed);
    t.match(values, where.replace(/(?::\d+){1,2}$/, ''), 'the document has the location');
    t.match(values, remedy, 'the document has the fix');
  });
}

t.test('all messages match the golden file', async (t) => {
  const whole = mistakes.map(({ name }) => sections.get(name) ?? '').join('\n');
  if (isUpdate) writeFileSync(golden, whole);
  const expected = readFileSync(golden, 'utf8')
    .split(/^(?=## )/m)
    .map((section, index) => (inJson.has(mistakes[index]!) ? section : withoutJson(section)));
  t.equal(whole, expected.join(''));
});

/** Removes the JSON output from a section. */
function withoutJson(section: string): string {
  return section.replace(/^json [^]*?^\[\d+\]\n/m, '');
}

/** Runs the built program in a separate directory in which the mistake was made. */
async function waybill(mistake: Mistake, args: string[]): Promise<Ended> {
  // A directory that another user may read, too.
  const place = mkdtempSync(path.join(tmpdir(), 'waybill-mistake-'));
  chmodSync(place, 0o755);
  try {
    const { config, files = {}, prepare, unprivileged, env } = mistake;
    const all = config === undefined ? files : { ...files, 'c.yml': config };
    for (const [name, content] of Object.entries(all)) {
      mkdirSync(path.dirname(path.join(place, name)), { recursive: true });
      writeFileSync(path.join(place, name), content);
    }
    prepare?.(place);
    const before = mistake.writesNothing === true ? fingerprint(place) : null;
    const isOther = unprivileged === true && process.getuid?.() === 0;
    if (isOther) chownSync(place, 65_534, 65_534);
    const child = spawn(process.execPath, [isOther ? forAll : program, ...args], {
      cwd: place,
      env: { PATH: process.env['PATH'], HOME: '/nonexistent', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      ...(isOther ? { uid: 65_534, gid: 65_534 } : {}),
    });
    const [stdout, stderr, status] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      new Promise<number | null>((resolve) => child.once('close', resolve)),
    ]);
    if (before !== null) t.same(fingerprint(place), before, `${mistake.name}: nothing is written`);
    return { status, stdout: normal(stdout, place), stderr: normal(stderr, place) };
  } finally {
    chmodSync(place, 0o755);
    rmSync(place, { recursive: true, force: true });
  }
}

/** Replaces values that differ in every run. */
function normal(written: string, place: string): string {
  return (
    withoutPorts(written)
      .replaceAll(place, 'PLACE')
      .replaceAll(path.basename(place), 'PLACE')
      .replace(/^.*; trying again in .*\n/gm, '')
      .replace(/ in [\d.]+ s(?=\b)/g, ' in TIME')
      // The id of a destination of `publish` is derived from its location.
      .replace(/\b(local|sftp|s3)-[0-9a-f]{8}\b/g, '$1-ID')
      .replace(/\d{4}[-/]\d\d[-/]\d\d[T ][\d:.]+Z?/g, 'WHEN')
  );
}

function withoutPorts(text: string): string {
  return text.replaceAll(`:${servers.pages}`, ':PAGES').replaceAll(`:${servers.closed}`, ':CLOSED');
}

/** All texts of a document, each on a line. */
function valuesOf(document: unknown): string {
  if (typeof document !== 'object' || document === null) return String(document);
  return Object.values(document).map(valuesOf).join('\n');
}

function section({ name }: Mistake, args: string[], asText: Ended, json: Ended | undefined): string {
  const lines = (asText.stdout + asText.stderr.replace(/^(?=.)/gm, '! ')).trimEnd();
  const command = normal(`$ waybill ${args.join(' ')}`, '\0');
  const parts = [`## ${name}`, command, lines, `[${asText.status}]`];
  if (json !== undefined) parts.push(`json ${essence(json)}`, `[${json.status}]`);
  return `${parts.join('\n')}\n`;
}

/** Errors and findings of a document, at any depth. */
function essence({ stdout, stderr }: Ended): string {
  const found: unknown[] = [];
  const { kind } = JSON.parse(stdout || stderr, (_, value: unknown) => {
    if (typeof value === 'object' && value !== null && 'code' in value && 'message' in value) {
      found.push(value);
      return undefined;
    }
    return value;
  }) as { kind: string };
  return [kind, ...found.map((each) => `  ${JSON.stringify(each)}`)].join('\n');
}
