import { spawn } from 'node:child_process';
import { mkdirSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { performance } from 'node:perf_hooks';
import { Parser, type Result } from 'tap-parser';
import { endLeftovers, fileMark, leftDirectories } from './leftovers.ts';
import {
  excerpt,
  firstPlace,
  originalPlace,
  originalStack,
  type Place,
  withOriginalPlaces,
} from './original-places.ts';
import { watchSilence } from './silence.ts';

export interface FileResult {
  file: string;
  passed: number;
  failures: Finding[];
  /** If the file passed when it was run again on its own, its failures from the first time. */
  flaky: Finding[];
  skipped: Finding[];
  /** Numbers that tests report, such as their coverage. They are comments that begin with `report:`. */
  reports: string[];
  stderr: string;
  /** How the process ended: `exit code 0` or `SIGKILL`. */
  exit: string;
  /** In milliseconds. */
  ms: number;
  /** Processor time in milliseconds, including child processes. null if unknown. */
  processorMs: number | null;
}

/** An assertion that has failed, and the details. */
export interface Finding {
  name: string;
  detail: string;
}

export interface FileSettings {
  env: Record<string, string>;
  /** Temporary directories, one on disk and one in memory if possible. They are deleted afterwards. */
  directories: readonly (string | undefined)[];
  /** Whether to skip tests that need a service that is not available. If not, they fail. */
  skipsMissing: boolean;
}

/** Modules that are loaded before each test file. */
export const quietDomains = new URL('quiet-domains.mjs', import.meta.url).href;
const processorTime = new URL('processor-time.mjs', import.meta.url).href;

/**
 * In milliseconds. If a file prints nothing for this long, it hangs. Tests with several processes can take
 * five minutes on two cores that are busy.
 */
const silenceMs = 900_000;

/**
 * Runs a test file in a session of its own. If it leaves processes or files behind, that is a failure.
 *
 * @param program The bundle to run instead of the file.
 */
export async function runFile(
  file: string,
  program: string,
  { env, directories, skipsMissing }: FileSettings,
): Promise<FileResult> {
  const [disk, memory] = directories;
  for (const directory of directories) if (directory !== undefined) makeDirectory(directory);
  const result: FileResult = {
    file,
    passed: 0,
    failures: [],
    flaky: [],
    skipped: [],
    reports: [],
    stderr: '',
    exit: '',
    ms: 0,
    processorMs: null,
  };
  const fail = (name: string, detail: string): void => void result.failures.push({ name, detail });
  const started = performance.now();
  const child = spawn(process.execPath, [`--import=${quietDomains}`, `--import=${processorTime}`, program], {
    // Start a new session, so that all of its processes can be found and killed.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      ...env,
      TAP: '1',
      // Disable tap's timeout. How long a file takes depends on the machine, so it is only killed if it
      // prints nothing.
      TAP_TIMEOUT: '0',
      ...(disk === undefined ? {} : { TMPDIR: disk, [fileMark]: disk }),
      ...(memory === undefined ? {} : { WAYBILL_TEST_MEMORY: memory }),
    },
  });
  const parser = newParser(result, skipsMissing);
  const silence = watchSilence(silenceMs, () => {
    fail('the whole file', `silent for ${silenceMs / 60_000} minutes, and killed`);
    killSession(child.pid as number);
  });
  let stdout = '';
  child.stdout.on('data', (chunk: Buffer) => {
    silence.refresh();
    stdout += chunk.toString();
    parser.write(chunk.toString());
  });
  child.stderr.on('data', (chunk: Buffer) => (result.stderr += chunk.toString()));
  const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve) =>
    child.once('exit', (...how) => resolve(how)),
  );
  silence.end();
  const left = await endLeftovers(child.pid as number, disk);
  if (!child.stdout.readableEnded) await new Promise((resolve) => child.once('close', resolve));
  parser.end();
  result.ms = performance.now() - started;
  result.stderr = withOriginalPlaces(result.stderr);
  result.exit = signal ?? `exit code ${code}`;
  const [, processorMs] = /^# processor time: (\d+)$/m.exec(stdout.slice(-1000)) ?? [];
  if (processorMs !== undefined) result.processorMs = Number(processorMs);
  result.reports = [...stdout.matchAll(/^ *# report: (.*)$/gm)].map(([, what = '']) => what);
  if (left.length > 0) fail('what it leaves behind', `processes:\n${left.join('\n')}`);
  const leftFiles = leftDirectories(directories);
  if (leftFiles.length > 0) fail('what it leaves behind', `files:\n${leftFiles.join('\n')}`);
  const isExplained = result.failures.length > 0 || (skipsMissing && result.skipped.length > 0);
  if ((code !== 0 || !parser.ok) && !isExplained)
    fail('the whole file', `ended with ${result.exit}\n${withOriginalPlaces(tail(stdout))}`);
  if (result.passed + result.failures.length + result.skipped.length === 0)
    fail('the whole file', 'it tested nothing');
  return result;
}

function newParser(result: FileResult, skipsMissing: boolean): Parser {
  const parser = new Parser();
  parser.on('pass', () => (result.passed += 1));
  const skip = (what: Result): void =>
    void result.skipped.push({ name: what.fullname, detail: String(what.skip || what.todo) });
  parser.on('skip', skip);
  parser.on('todo', skip);
  parser.on('fail', (what: Result) => {
    const diagnosis = what.diag as { code?: unknown; message?: string } | null;
    if (skipsMissing && diagnosis?.code === 'missing_service') {
      result.skipped.push({ name: what.fullname.replace(/ > [^>]*$/, ''), detail: what.name });
    } else result.failures.push({ name: nameOf(what), detail: detailOf(what) });
  });
  return parser;
}

/** Returns the names of the test, its parents, and the assertion. */
function nameOf({ fullname, name }: Result): string {
  return fullname.endsWith(`> ${name}`) || fullname === name ? fullname : `${fullname} > ${name}`;
}

/** Formats the details of a failure, with positions in the source. */
function detailOf({ diag }: Result): string {
  if (diag === null || typeof diag !== 'object') return '';
  const { at, stack, ...others } = diag as Record<string, unknown>;
  const frames = typeof stack === 'string' ? originalStack(stack) : '';
  const place = firstPlace(frames) ?? placeOf(at);
  const details = {
    ...others,
    ...(frames !== '' ? { stack: frames } : place && { at: `${place.file}:${place.line}:${place.column}` }),
    // tap shows lines of the bundle, so replace them with lines of the source.
    source: place && excerpt(place),
  };
  return Object.entries(details)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => {
      const text = withOriginalPlaces(typeof value === 'string' ? value : JSON.stringify(value, null, 2));
      return text.includes('\n') ? `${key}:\n${text.trimEnd().replaceAll(/^/gm, '  ')}` : `${key}: ${text}`;
    })
    .join('\n');
}

/** Returns the position in tap's report. */
function placeOf(at: unknown): Place | undefined {
  if (at === null || typeof at !== 'object') return undefined;
  const { fileName, lineNumber, columnNumber } = at as Record<string, unknown>;
  return originalPlace({ file: String(fileName), line: Number(lineNumber), column: Number(columnNumber) });
}

/** Creates a temporary directory. It contains a link to the cache of tsx, which all files share. */
function makeDirectory(directory: string): void {
  mkdirSync(directory, { recursive: true });
  const cache = `tsx-${process.getuid?.() ?? 0}`;
  mkdirSync(path.join(tmpdir(), cache), { recursive: true });
  symlinkSync(path.join(tmpdir(), cache), path.join(directory, cache));
}

function killSession(session: number): void {
  try {
    process.kill(-session, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

function tail(text: string): string {
  return text.trimEnd().split('\n').slice(-20).join('\n');
}
