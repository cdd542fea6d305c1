import fs, { existsSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import path from 'node:path';
import type { Test } from 'tap';
import type { Output } from '../../../src/cli/output/output.ts';
import type { ErrorRecord } from '../../../src/core/lib/errors.ts';
import type {
  DestinationResult,
  PipelineResult,
  RunResult,
} from '../../../src/core/publish/results/result.ts';

/** Publishes a directory in this process, so that the files that a command opens are counted. */

/** The real paths of the files that were opened for reading. */
const opened: string[] = [];
const { openSync } = fs;
fs.openSync = ((file: fs.PathLike, flags: fs.OpenMode, mode?: fs.Mode) => {
  const descriptor = openSync(file, flags, mode);
  if (fs.fstatSync(descriptor).isFile()) opened.push(fs.readlinkSync(`/proc/self/fd/${descriptor}`));
  return descriptor;
}) as typeof fs.openSync;
syncBuiltinESMExports();

// Loaded after the calls are instrumented.
const { publish } = await import('../../../src/cli/commands/publish/publish.ts');
const { promoteRelease, rollBackRelease } =
  await import('../../../src/cli/commands/publish/releases/switch.ts');
const { makeOutput } = await import('../../../src/cli/output/output.ts');

export type Tree = Readonly<Record<string, string>>;

export interface Kind {
  files?: Tree;
  /** Adds entries that are not regular files, or copies. */
  more?: (site: string) => void;
  links?: 'follow' | 'skip';
  exclude?: string[];
  /** Names that must not be published. */
  absent?: RegExp;
}

/** Collects the documents of commands, and prints nothing. */
function collecting(): { output: Output; last: () => unknown } {
  let last: unknown;
  const output: Output = {
    ...makeOutput({ json: true, color: false }),
    json: (_, body) => void (last = body),
    result: (_, body) => void (last = body),
  };
  return { output, last: () => last };
}

function makeTree(site: string, { files = {}, more = () => undefined }: Kind): void {
  for (const [name, content] of Object.entries(files)) {
    const file = path.join(site, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, content);
  }
  mkdirSync(site, { recursive: true });
  more(site);
  // A file that changed a moment ago is hashed again, because it may still be changing.
  const longAgo = new Date('2026-11-20T01:02:03Z');
  for (const entry of readdirSync(site, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) utimesSync(path.join(entry.parentPath, entry.name), longAgo, longAgo);
}

interface Round {
  status: number;
  action: string | undefined;
  written: number;
  /** The files of the directory that were read. */
  read: number;
}

interface Site {
  site: string;
  www: string;
  publish: () => Promise<Round>;
  /** The error of the directory in the last publication. */
  error: () => ErrorRecord | null | undefined;
  /** Rolls back, and forward to the latest release. */
  rollBackAndForth: () => Promise<string[]>;
}

export function layOut(t: Test, kind: Kind): Site {
  const cwd = t.testdir({});
  const [site, www, saved] = ['site', 'www', 'waybill.yml'].map((name) => path.join(cwd, name)) as [
    string,
    string,
    string,
  ];
  process.env['XDG_CACHE_HOME'] = path.join(cwd, 'cache');
  makeTree(site, kind);
  const { output, last } = collecting();
  const io = { output, signal: new AbortController().signal };
  const common = { format: 'json', color: false, verbose: false, dryRun: false } as const;
  const current = (): string => path.basename(fs.readlinkSync(path.join(www, 'current')));
  const pipelineResult = (): PipelineResult | undefined => (last() as RunResult).pipelines[0];
  const action = (): DestinationResult['actions'][number] | undefined =>
    pipelineResult()?.destinations[0]?.actions[0];
  return {
    ...{ site, www },
    error: () => pipelineResult()?.invalidBundles[0]?.error,
    async publish() {
      opened.length = 0;
      const save = existsSync(saved) ? undefined : saved;
      const options = {
        ...common,
        force: false,
        yes: false,
        open: false,
        releases: true,
        index: 'never',
      } as const;
      const { links, exclude } = kind;
      const status = await publish(
        { ...options, directory: site, destinations: [www], links, exclude, save },
        io,
      );
      const read = opened.filter((file) => file.startsWith(`${site}/`)).length;
      return { status, action: action()?.action, written: action()?.outputsWritten ?? 0, read };
    },
    async rollBackAndForth() {
      const seen = [current()];
      const at = { ...common, config: saved, pipeline: 'site' };
      t.equal(await rollBackRelease(at, io), 0);
      seen.push(current());
      t.equal(await promoteRelease({ ...at, release: seen[0] ?? '' }, io), 0);
      return [...seen, current()];
    },
  };
}

/** Publishes a directory twice, changes one file, rolls back and forward, and publishes it again. */
export async function publishInRounds(t: Test, kind: Kind): Promise<void> {
  const { site, www, publish: publishIt, rollBackAndForth } = layOut(t, kind);
  const first = await publishIt();
  t.match(first, { status: 0, action: 'publish_new' });
  t.ok(first.read > 0, 'the files are read once');
  t.same(await publishIt(), { status: 0, action: 'skip_same', written: 0, read: 0 });
  const published = readdirSync(path.join(www, 'current'), { recursive: true, encoding: 'utf8' });
  const { absent } = kind;
  if (absent !== undefined) t.notOk(published.some((file) => absent.test(path.basename(file))));

  const changed =
    published.find(
      (file) => fs.statSync(path.join(www, 'current', file)).isFile() && file !== '.publisher.json',
    ) ?? '';
  writeFileSync(path.join(site, changed), 'changed content');
  t.match(await publishIt(), { status: 0, action: 'replace_catalog', written: 1 });
  t.equal(readFileSync(path.join(www, 'current', changed), 'utf8'), 'changed content');
  const [latest, earlier, again] = await rollBackAndForth();
  t.not(earlier, latest);
  t.equal(again, latest);
  t.match(await publishIt(), { status: 0, action: 'skip_same', written: 0 });
}
