import { spawnSync, type SpawnSyncReturns } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import type { Test } from 'tap';
import { loadConfig } from '../../src/core/config/load-config.ts';
import type { CoreContext } from '../../src/core/context.ts';
import { systemClock } from '../../src/core/lib/clock.ts';
import { verify } from '../../src/core/maintain/verify.ts';
import { publishPipeline } from '../../src/core/publish/publish.ts';
import type { ActionResult } from '../../src/core/publish/results/result.ts';
import { localStorage } from '../../src/core/storage/local/local-storage.ts';
import { memoryDirectory } from '../support/memory-directory.ts';
import { contextWith } from './world.ts';

/** The built program, and a pipeline from a directory with one bundle to a directory. */
export const program = path.resolve('dist/cli/main.js');

export interface Place {
  site: string;
  /** The only bundle. */
  source: string;
  config: string;
  layout: 'in_place' | 'releases';
  /** The number of files in the bundle. */
  files: number;
}

const releasesSetting = 'layout: releases, releases: {keep: 2, linger: 0s},';

export function layOut(t: Test, layout: Place['layout'], files: number): Place {
  const root = mkdtempSync(path.join(memoryDirectory(), 'waybill-built-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  mkdirSync(path.join(root, 'source', 'bundle'), { recursive: true });
  writeFileSync(path.join(root, 'config.yml'), configuration(layout));
  return {
    site: path.join(root, 'out'),
    source: path.join(root, 'source', 'bundle'),
    config: path.join(root, 'config.yml'),
    layout,
    files,
  };
}

function configuration(layout: Place['layout']): string {
  return [
    'pipelines:',
    '  - id: maps',
    '    source: {backend: local, path: ./source}',
    '    destinations:',
    '      - {id: web, backend: local, path: ./out, mapping: fixed, workflow: replacement,',
    `         ${layout === 'releases' ? releasesSetting : ''} outputs: {checksums: true}}`,
    '',
  ].join('\n');
}

/** The same directory, published in this layout from now on. */
export function withLayout(place: Place, layout: Place['layout']): Place {
  writeFileSync(place.config, configuration(layout));
  return { ...place, layout };
}

/** The commands that change published files. */
export function commandsAt({ config }: Place): Record<'run' | 'rollback' | 'resume' | 'unpublish', string[]> {
  const where = ['--config', config];
  const named = [...where, '--pipeline', 'maps', '--destination', 'web'];
  return {
    run: ['run', ...where],
    rollback: ['releases', 'rollback', ...named],
    resume: ['releases', 'resume', ...named],
    unpublish: ['unpublish', '.', ...named],
  };
}

export function waybill(args: readonly string[], env: Record<string, string> = {}): SpawnSyncReturns<string> {
  return spawnSync(process.execPath, [program, ...args], {
    ...{ encoding: 'utf8', env: { ...process.env, ...env } },
  });
}

/** A third of the files contain their version. The others are the same in every version. */
export function writeBundle({ source, files: count }: Place, version: number): void {
  const files = Array.from({ length: count }, (_, index) => {
    const name = `d${index % 4}/file-${index}`;
    mkdirSync(path.dirname(path.join(source, name)), { recursive: true });
    writeFileSync(path.join(source, name), index % 3 === 0 ? `version ${version}` : 'the same in each');
    return name;
  });
  const created = new Date(Date.parse('2026-11-20T00:00:00Z') + version * 1000).toISOString();
  writeFileSync(path.join(source, 'manifest.json'), JSON.stringify({ created, files }));
}

/** The version that readers see, or null if there are no files. Throws if no version is complete. */
export function versionRead({ site, layout, files }: Place): string | null {
  let read = site;
  if (layout === 'releases')
    try {
      read = path.join(site, readlinkSync(path.join(site, 'current')));
    } catch {
      return null;
    }
  const isRead = (name: string): boolean =>
    path.basename(name).startsWith('file-') && !/^(releases|current)\//.test(name);
  const names = namesIn(read).filter(isRead);
  const texts = new Set(names.map((name) => readFileSync(path.join(read, name), 'utf8')));
  texts.delete('the same in each');
  const [version, ...others] = texts;
  if (names.length !== files || version === undefined || others.length > 0)
    throw new Error(`readers have ${names.length} files of ${[...texts].join(', ')}`);
  return version;
}

const openStorage: CoreContext['openStorage'] = async (location, options) => {
  if (location.backend !== 'local') throw new Error(`${location.backend} is not used here`);
  return localStorage(location.path, options);
};

/** The equivalent of `waybill run` in this process, because starting the program takes far longer. */
export async function publishHere({ config: file }: Place, clock = systemClock): Promise<ActionResult> {
  const { config } = await loadConfig(file, { home: path.dirname(file) });
  const context = { ...contextWith(clock), openStorage };
  const [pipeline] = config.pipelines;
  if (pipeline === undefined) throw new Error(`${file} has no pipeline`);
  const { destinations } = await publishPipeline(context, pipeline, { dryRun: false, force: false });
  const [result] = destinations[0]?.actions ?? [];
  if (result === undefined || result.bundle === null)
    throw new Error(`nothing was published: ${JSON.stringify(destinations)}`);
  return result;
}

/**
 * Checks the state after a kill, with `version` in the source: the next run publishes it without force,
 * another run changes nothing, every recorded byte exists, and no other files are left. Returns the errors.
 */
export async function wrongAfterKill(place: Place, version: number, clock = systemClock): Promise<string[]> {
  const wrong: string[] = [];
  const { error } = await publishHere(place, clock);
  if (error !== null) wrong.push(`the next run failed without force: ${error.code} ${error.message}`);
  const read = versionRead(place);
  if (read !== `version ${version}`) wrong.push(`readers have ${String(read)}, not version ${version}`);
  const { action } = await publishHere(place, clock);
  if (action !== 'skip_same') wrong.push(`another run has something to do: ${action}`);
  const reports = await verify(await localStorage(place.site), { concurrency: 8 });
  if (reports.length === 0) wrong.push('there is no catalog');
  for (const { differing } of reports)
    if (differing.length > 0) wrong.push(`recorded and different: ${JSON.stringify(differing)}`);
  const left = namesIn(place.site).filter((name) => /\.publisher\.(tmp|lock)/.test(name));
  if (left.length > 0) wrong.push(`left behind: ${left.join(', ')}`);
  if (place.layout === 'in_place') return wrong;
  const stored = readdirSync(path.join(place.site, 'releases'));
  return stored.length <= 3 ? wrong : [...wrong, `${stored.length} releases are kept`];
}

function namesIn(directory: string): string[] {
  return existsSync(directory) ? readdirSync(directory, { recursive: true, encoding: 'utf8' }) : [];
}
