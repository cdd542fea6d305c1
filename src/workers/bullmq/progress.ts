import type { JobProgress } from '../job.ts';
import type { RunRecord } from '../run-record.ts';
import { progressedRun } from '../run-transitions.ts';

/** The record of a run that is under way, kept here and saved now and then. */
export interface ProgressSaver {
  add: (message: JobProgress) => void;
  record(): RunRecord;
  /** Saves no more; resolves when nothing is under way. */
  stop(): Promise<void>;
}

const pauseMs = 200;

/** Saves at most five times a second, one at a time; a save that fails is made up for by the next. */
export function progressSaver(
  begun: RunRecord,
  store: (record: RunRecord) => Promise<unknown>,
): ProgressSaver {
  let record = begun;
  let saving: Promise<unknown> | undefined;
  let timer: NodeJS.Timeout | undefined;
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
    if (!stopped && timer === undefined && saving === undefined) timer = setTimeout(save, pauseMs);
  };
  return {
    add: (message) => {
      record = progressedRun(record, message);
      later();
    },
    record: () => record,
    stop: async () => {
      stopped = true;
      clearTimeout(timer);
      await saving;
    },
  };
}
