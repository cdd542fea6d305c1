import { customAlphabet } from 'nanoid';

// 36^10 is 51 bits: the run id is the capability to read the run's record, so it must not be guessed.
const suffix = customAlphabet('0123456789abcdefghijklmnopqrstuvwxyz', 10);

/** A new run's id: `<pipeline_id>.<compact_utc_timestamp>.<short_suffix>`. */
export function newRunId(pipelineId: string, acceptedAt: Date): string {
  return `${pipelineId}.${compactUtc(acceptedAt)}.${suffix()}`;
}

/** `20261120T020434Z`. */
function compactUtc(date: Date): string {
  return `${date.toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z`;
}
