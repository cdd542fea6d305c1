import { fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { WaybillError } from '../../core/lib/errors.ts';
import type { ReaderMessage } from './file-reader.ts';
import { findFrames, unframe } from './framing.ts';
import { parseStoredRun } from './stored-run.ts';

/** The module that runs in the child process, either compiled or from source. */
const reader = new URL(
  import.meta.url.endsWith('.ts') ? './file-reader.ts' : './file-reader.js',
  import.meta.url,
);

/**
 * Reads and verifies all entries of the queue's file. This happens in a child process, so that a corrupted
 * file cannot crash the daemon. Throws a `queue_unusable` error if the file is corrupted. The error says how
 * much of it is still readable.
 */
export async function readQueueFile(file: string): Promise<Map<string, string>> {
  const { entries, failure } = await readInChild(file);
  if (failure !== null) throw damaged(file, failure);
  const values = new Map<string, string>();
  for (const [key, text] of entries) {
    const value = unframe(key, text);
    if (value === undefined) throw damaged(file, `the entry ${key} is garbled`);
    values.set(key, value);
  }
  return values;
}

function readInChild(file: string): Promise<{ entries: [string, string][]; failure: string | null }> {
  return new Promise((resolve, reject) => {
    const entries: [string, string][] = [];
    let failure: string | null | undefined;
    const child = fork(fileURLToPath(reader), [], {
      execArgv: reader.pathname.endsWith('.ts') ? ['--import', 'tsx'] : [],
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      serialization: 'advanced',
      // The child process does not need our secrets.
      env: {},
    });
    child.on('message', (message: ReaderMessage) => {
      if ('entries' in message) entries.push(...message.entries);
      else ({ failure } = message);
    });
    child.once('error', reject);
    child.once('close', (code, signal) =>
      resolve({
        entries,
        failure: failure === undefined ? `reading it ended with ${signal ?? `exit code ${code}`}` : failure,
      }),
    );
    child.send(file);
  });
}

const runsNamed = 20;

function damaged(file: string, why: string): WaybillError {
  const { whole, unfinished } = legibleRuns(file);
  const names = unfinished.slice(0, runsNamed).join(', ');
  const more = unfinished.length > runsNamed ? `, and ${unfinished.length - runsNamed} more` : '';
  const unfinishedNote =
    unfinished.length === 0 ? '' : `, of which ${unfinished.length} had not finished: ${names}${more}`;
  return new WaybillError(
    'queue_unusable',
    `the file of the queue, ${file}, is damaged: ${why}. ${whole} runs can be read in it${unfinishedNote}`,
    {
      hint: 'restore a copy of the directory, or move it away and start with an empty one: waiting uploads then have to be uploaded again; its staged bundles are removed at that start',
    },
  );
}

/**
 * Finds all intact runs in the file, along with their last known states. Some of them may have been deleted
 * since.
 */
function legibleRuns(file: string): { whole: number; unfinished: string[] } {
  const isOver = new Map<string, boolean>();
  for (const json of findFrames(readFileSync(file))) {
    const run = parseStoredRun(json);
    if (run === undefined) continue;
    const { run_id: runId, finished_at: finishedAt } = run.record;
    isOver.set(runId, finishedAt !== null || isOver.get(runId) === true);
  }
  return {
    whole: isOver.size,
    unfinished: [...isOver].filter(([, over]) => !over).map(([runId]) => runId),
  };
}
