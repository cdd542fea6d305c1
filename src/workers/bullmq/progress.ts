import type { Clock, Timer } from '../../core/lib/clock.ts';
import type { JobProgress } from '../queue/job.ts';
import type { RunRecord } from '../queue/run-record.ts';
import { progressedRun } from '../queue/run-transitions.ts';

/** The record of a run that is under way, kept up to date here and saved from time to time. */
export interface ProgressSaver {
  add: (message: JobProgress) => void;
  record(): RunRecord;
  /** Saves no more; resolves when no save is under way. */
  stop(): Promise<void>;
}

const pauseMs = 200;

/** Saves at most five times a second, one save at a time; a save that fails is superseded by the next. */
export function progressSaver(
  begun: RunRecord,
  clock: Clock,
  store: (record: RunRecord) => Promise<unknown>,
): ProgressSaver {
  let record = begun;
  let saving: Promise<unknown> | undefined;
  let timer: Timer | undefined;
  let stopped = false;
  const save = (): void => {
    timer = undefined;
    const saved = record;
    saving = store(saved)
      .catch(() => undefined)
      .finally(() => {
        saving = undefined;
        if (record !== saved) later();
      });
  };
  const later = (): void => {
    if (!stopped && timer === undefined && saving === undefined) timer = clock.timeout(pauseMs, save);
  };
  return {
    add: (message) => {
      record = progressedRun(record, message);
      later();
    },
    record: () => record,
    stop: async () => {
      stopped = true;
      timer?.cancel();
      await saving;
    },
  };
}
