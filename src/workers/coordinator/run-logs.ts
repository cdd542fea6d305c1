import type { Clock } from '../../core/lib/clock.ts';
import { errorTable } from '../../core/lib/error-codes.ts';
import { withoutPaths } from '../../core/lib/errors.ts';
import type { LineLevel, Log } from '../../core/lib/log.ts';

/** A log line about a run, without host paths. */
export interface RunLogLine {
  /** RFC 3339, UTC. */
  at: string;
  level: Exclude<LineLevel, 'debug'>;
  message: string;
  /** null if the line does not name one. */
  destinationId: string | null;
}

export interface RunLogs {
  /** Writes to the program's log, and keeps the lines that name a run. Debug lines are not kept. */
  log: Log;
  /** Returns the newest lines of a run, oldest first. */
  linesOf: (runId: string) => readonly RunLogLine[];
}

const maxRuns = 200;
const maxLines = 50;
const maxChars = 500;

/**
 * Keeps the newest lines of the newest runs in memory, for the console. They are lost on a restart, and lines
 * from other hosts are not included.
 */
export function createRunLogs({ log, clock }: { log: Log; clock: Clock }): RunLogs {
  const linesByRun = new Map<string, RunLogLine[]>();
  const keep = (level: RunLogLine['level'], fields: object, message: string): void => {
    const { run_id: runId, destination = null, err } = fields as Record<string, unknown>;
    if (typeof runId !== 'string') return;
    const line = {
      at: clock.now().toISOString(),
      level,
      message: withoutPaths(`${message}${causeOf(err)}`).slice(0, maxChars),
      destinationId: typeof destination === 'string' ? destination : null,
    };
    const lines = [...(linesByRun.get(runId) ?? []), line].slice(-maxLines);
    // The run becomes the newest one of the map.
    linesByRun.delete(runId);
    linesByRun.set(runId, lines);
    for (const oldest of linesByRun.keys()) {
      if (linesByRun.size <= maxRuns) break;
      linesByRun.delete(oldest);
    }
  };
  const line =
    (level: RunLogLine['level']) =>
    (fields: object, message: string): void => {
      log[level](fields, message);
      keep(level, fields, message);
    };
  return {
    log: {
      debug: (fields, message) => log.debug(fields, message),
      info: line('info'),
      warn: line('warn'),
      error: line('error'),
      isLevelEnabled: (level) => log.isLevelEnabled?.(level) ?? true,
    },
    linesOf: (runId) => linesByRun.get(runId) ?? [],
  };
}

/** Returns the message of an expected error. Other errors may contain anything, and only the log has them. */
function causeOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return '';
  const { code, message } = error as { code?: unknown; message?: unknown };
  const isExpected = typeof code === 'string' && Object.hasOwn(errorTable, code) && code !== 'internal_error';
  return isExpected ? `: ${String(message)}` : '';
}
