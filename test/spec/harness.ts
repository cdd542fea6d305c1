import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import type { Test } from 'tap';

/*
 * The tests of this folder use the program like its users: they start the built program and check files,
 * stdout, stderr, exit codes and HTTP. They import nothing from `src`.
 */

export const program = path.resolve('dist/bundle/waybill.cjs');

export interface Ended {
  status: number | null;
  stdout: string;
  stderr: string;
}

/** The parts of a bundle's action at a destination that these tests check. */
export interface Action {
  action: string;
  destination_path: string | null;
  outputs: { path: string; kind: string; digest: string; size: number; url: string | null }[];
  error: { code: string } | null;
}

export interface RunDocument {
  warnings: { message: string }[];
  counters: Record<string, number>;
  pipelines: {
    pipeline_id: string;
    status: string;
    bundles: number;
    warnings: { message: string }[];
    destinations: {
      destination_id: string;
      status: string;
      actions: Action[];
      warnings: { message: string }[];
      error: { code: string } | null;
    }[];
  }[];
}

export interface OutputRecord {
  path: string;
  kind: string;
  digest: string;
  size: number;
  updated_at: string;
  owner: { pipeline_id: string; destination_id: string };
  source: object;
  generated: object;
  url?: string;
}

export interface State {
  schema_version: number;
  updated_at: string;
  outputs: OutputRecord[];
}

/** Root without its capabilities is subject to file modes like any other user. */
const withoutPrivileges = ['setpriv', '--bounding-set=-all', '--inh-caps=-all', '--'];

/**
 * Runs the program in `cwd` to its end, with only PATH from the environment of this process. With
 * `unprivileged`, file modes apply even if this process is root.
 */
export async function waybill(
  cwd: string,
  args: readonly string[],
  env: Record<string, string> = {},
  { unprivileged = false } = {},
): Promise<Ended> {
  const through = unprivileged && process.getuid?.() === 0 ? withoutPrivileges : [];
  const [command = '', ...words] = [...through, process.execPath, program, ...args];
  const child = spawn(command, words, {
    cwd,
    env: { PATH: process.env['PATH'] ?? '', HOME: cwd, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = once(child, 'close') as Promise<[number | null]>;
  const [stdout, stderr, [status]] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { status, stdout, stderr };
}

/**
 * A directory with a configuration `c.yml`, bundles below `source`, and the files that the program creates.
 */
export class World {
  readonly root: string;
  readonly env: Record<string, string> = {};

  constructor(t: Pick<Test, 'teardown'>, config: string) {
    this.root = mkdtempSync(path.join(tmpdir(), 'waybill-spec-'));
    t.teardown(() => rmSync(this.root, { recursive: true, force: true }));
    this.write('c.yml', config);
  }

  at(name: string): string {
    return path.join(this.root, name);
  }

  write(name: string, content: string | Buffer): void {
    mkdirSync(path.dirname(this.at(name)), { recursive: true });
    writeFileSync(this.at(name), content);
  }

  remove(name: string): void {
    rmSync(this.at(name), { recursive: true });
  }

  /** Every file below a directory with its text, by its path. */
  files(directory: string): Record<string, string> {
    const names = readdirSync(this.at(directory), { recursive: true, encoding: 'utf8' }).sort();
    const files = names.filter((name) => statSync(this.at(path.join(directory, name))).isFile());
    return Object.fromEntries(
      files.map((name) => [name, readFileSync(this.at(path.join(directory, name)), 'utf8')]),
    );
  }

  /** Writes the bundle `source/<name>`; `created` is its timestamp. */
  bundle(name: string, files: Record<string, string>, created = '2026-11-20T00:00:00Z'): void {
    this.write(`source/${name}/manifest.json`, manifest(Object.keys(files), created));
    for (const [file, content] of Object.entries(files)) this.write(`source/${name}/${file}`, content);
  }

  state(directory: string): State {
    return JSON.parse(readFileSync(this.at(`${directory}/.publisher.json`), 'utf8')) as State;
  }

  async cli(...args: string[]): Promise<Ended> {
    return waybill(this.root, args, this.env);
  }

  /** `waybill run` with the configuration. */
  async run(...args: string[]): Promise<Ended> {
    return this.cli('run', '--config', 'c.yml', ...args);
  }

  /** The same with its JSON document. */
  async runDocument(...args: string[]): Promise<RunDocument> {
    const { stdout, stderr } = await this.run('--format', 'json', ...args);
    if (stdout === '') throw new Error(stderr);
    return JSON.parse(stdout) as RunDocument;
  }

  /** The actions of a run, in the order of the destinations. */
  async actions(...args: string[]): Promise<string[]> {
    const { pipelines } = await this.runDocument(...args);
    return pipelines.flatMap(({ destinations }) =>
      destinations.flatMap(({ actions }) => actions.map(({ action }) => action)),
    );
  }
}

export function manifest(files: readonly string[], created = '2026-11-20T00:00:00Z'): string {
  return JSON.stringify({ schema_version: 1, created, files });
}

/** A pipeline `maps` from `./source` to these destinations. `more` comes before it. */
export function pipeline(destinations: readonly string[], more = ''): string {
  return `${more}
pipelines:
  - id: maps
    source: {backend: local, path: ./source}
    destinations:
${destinations.map((one) => `      - {${one}}`).join('\n')}
`;
}

export const web = 'id: web, backend: local, path: ./web';
