import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { Test } from 'tap';

export const program = path.resolve('dist/cli/main.js');

/**
 * Returns the built program at a path that every user may read. The clone may be in `/root`. The directory
 * is removed with `t`.
 */
export function programForAll(t: Pick<Test, 'teardown'>): string {
  const place = mkdtempSync(path.join(tmpdir(), 'waybill-program-'));
  t.teardown(() => rmSync(place, { recursive: true, force: true }));
  chmodSync(place, 0o755);
  cpSync('dist/bundle', path.join(place, 'dist/bundle'), { recursive: true });
  cpSync('package.json', path.join(place, 'package.json'));
  return path.join(place, 'dist/bundle/waybill.cjs');
}

export interface Ended {
  status: number | null;
  stdout: string;
  stderr: string;
}

/** Runs the built program to its end, with only PATH from the environment of this process. */
export function waybill(
  args: readonly string[],
  options: { cwd?: string; env?: Record<string, string>; input?: Buffer } = {},
): Ended {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], {
    encoding: 'utf8',
    cwd: options.cwd ?? process.cwd(),
    env: { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent', ...options.env },
    ...(options.input === undefined ? {} : { input: options.input }),
  });
  return { status, stdout, stderr };
}

const validateOutput = new Ajv2020({ allErrors: true }).compile(
  JSON.parse(readFileSync('schemas/cli-output.schema.json', 'utf8')) as object,
);

/** The one JSON document on stdout, validated against the published schema. */
export function document(t: Test, { stdout }: Pick<Ended, 'stdout'>): unknown {
  const parsed: unknown = JSON.parse(stdout);
  validateOutput(parsed);
  t.same(validateOutput.errors ?? [], [], 'the document matches the schema');
  return parsed;
}

/** The error document of a command that failed without a result. stdout is empty. */
export function errorDocument(t: Test, { stdout, stderr }: Ended): unknown {
  t.equal(stdout, '', 'a fatal failure prints no result document');
  return document(t, { stdout: stderr.trimEnd().split('\n').at(-1) ?? '' });
}

/** Every file below a directory, with the metadata that any change would alter. */
export function fingerprint(directory: string): Record<string, string> {
  const entries = readdirSync(directory, { recursive: true, encoding: 'utf8' }).sort();
  return Object.fromEntries(
    entries.map((name) => {
      const { mtimeMs, ino, size, mode } = lstatSync(path.join(directory, name));
      return [name, `${mtimeMs} ${ino} ${size} ${mode}`];
    }),
  );
}

export function manifest(files: unknown[], created = '2026-11-20T01:02:03Z', more: object = {}): string {
  return JSON.stringify({ schema_version: 1, created, files, ...more });
}

/** A configuration with one pipeline, `maps`, from `./source`. */
export function configuration(destinations: string[], more = ''): string {
  return [
    ...(more === '' ? [] : [more]),
    'pipelines:',
    '  - id: maps',
    '    source: {backend: local, path: ./source}',
    '    destinations:',
    ...destinations.map((destination) => `      - {${destination}}`),
    '',
  ].join('\n');
}

export const web = 'id: web, backend: local, path: ./web';
export const root = 'id: root, backend: local, path: ./root, mapping: fixed';
