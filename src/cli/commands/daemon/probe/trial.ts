import type { Clock } from '../../../../core/lib/clock.ts';
import type { Loaded } from '../../../../core/config/accepted-config.ts';
import type { KeyPath } from '../../../../core/config/yaml-text.ts';
import { asWaybillError, errorRecord, WaybillError, type ErrorRecord } from '../../../../core/lib/errors.ts';
import { inParallel } from '../../../../core/lib/parallel.ts';

/** One thing that the configuration names, to be tried. */
export interface Trial {
  /** The setting that names it. */
  path: KeyPath;
  /** What is tried, for people and without a secret: a directory, a server. */
  subject: string;
  /**
   * Tries it, leaves nothing behind, and returns what was found, as half a sentence. Throws what is wrong.
   * What is still open when `signal` aborts is closed; whatever comes then is not waited for.
   */
  run: (signal: AbortSignal) => Promise<string>;
}

/** How a trial ended. */
export interface Tried {
  /** As in findings: `pipelines[0].source.path`. */
  pointer: string;
  /** In the file, from 1. */
  line: number;
  column: number;
  subject: string;
  /** Null where it failed. */
  found: string | null;
  /** Null where it did not. */
  error: ErrorRecord | null;
}

/** Trials at once: most of them wait for another machine. */
const atOnce = 8;
/** For one trial: twice what a server in trouble takes to say so, and less than a person waits. */
const deadlineMs = 15_000;

/** Tries everything, and returns how each ended, in the order in which they were given. Never throws. */
export async function tryAll(
  trials: readonly Trial[],
  { clock, locate }: { clock: Clock } & Pick<Loaded, 'locate'>,
): Promise<Tried[]> {
  const ended: Tried[] = [];
  await inParallel(trials.entries(), atOnce, async ([index, { path, subject, run }]) => {
    const place = { ...locate(path), subject };
    try {
      ended[index] = { ...place, found: await inTime(run, clock), error: null };
    } catch (error) {
      ended[index] = { ...place, found: null, error: errorRecord(explained(error)) };
    }
  });
  return ended;
}

async function inTime(run: Trial['run'], clock: Clock): Promise<string> {
  const ending = new AbortController();
  return new Promise<string>((resolve, reject) => {
    const timer = clock.timeout(deadlineMs, () => {
      const message = `there was no answer within ${deadlineMs / 1000} s`;
      const hint =
        'look whether it is up, and whether a firewall between here and there drops the connection';
      const late = new WaybillError('storage_transient', message, { hint });
      ending.abort(late);
      reject(late);
    });
    run(ending.signal)
      .finally(() => timer.cancel())
      .then(resolve, reject);
  });
}

/** Errors that say what is wrong say as a rule also what to do; here all do. */
function explained(thrown: unknown): WaybillError {
  const error = asWaybillError(thrown);
  if (error.hint !== undefined) return error;
  return new WaybillError(error.code, error.message, {
    hint: 'correct this setting, or what it names',
    cause: error,
    findings: error.findings,
  });
}
