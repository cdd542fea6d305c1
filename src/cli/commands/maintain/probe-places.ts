import type { PipelineConfig } from '../../../core/config/config.ts';
import type { CoreContext } from '../../../core/context.ts';
import { type ErrorRecord, errorRecord } from '../../../core/lib/errors.ts';
import { firstRefusal, type Probe, probeStorage, rightNames } from '../../../core/maintain/probe.ts';
import { describeLocation, type StorageLocation } from '../../../core/storage/backends.ts';
import type { Storage } from '../../../core/storage/storage.ts';
import { columns, type Output } from '../../output/output.ts';

/** The result for a source or destination, or the error if it could not be opened. */
export interface PlaceProbe {
  /** null if this is the source. */
  destinationId: string | null;
  location: string;
  probe: Probe | null;
  error: ErrorRecord | null;
}

/**
 * Checks whether the source, which is already open, can be read, and whether the pipeline's destinations can
 * be written to.
 */
export async function probePlaces(
  context: CoreContext,
  pipeline: PipelineConfig,
  source: Storage,
): Promise<PlaceProbe[]> {
  const location = pipeline.source.backend === 'http_upload' ? '' : describeLocation(pipeline.source);
  const probe = await probeStorage(source, context.clock, { write: false });
  const places: PlaceProbe[] = [{ destinationId: null, location, probe, error: null }];
  for (const destination of pipeline.destinations)
    places.push({
      destinationId: destination.id,
      location: describeLocation(destination.location),
      ...(await probeDestination(context, destination.location)),
    });
  return places;
}

/** Reports whether everything that was tried was permitted. */
export function hasAllRights({ probe, error }: PlaceProbe): boolean {
  return error === null && probe !== null && firstRefusal(probe) === null;
}

export function printProbes(places: readonly PlaceProbe[], output: Output): void {
  const { style } = output;
  const rows = places.map(({ destinationId, probe }) => [
    style.cyan(destinationId ?? '(source)'),
    ...(probe === null ? [style.red('not opened')] : cells(probe, output)),
  ]);
  output.data('probe');
  const heads = ['place', 'latency', 'clock', 'rename', 'conditional writes', 'rights'];
  for (const line of columns([heads.map((head) => style.dim(head)), ...rows], '  ')) output.data(line);
  for (const { destinationId, probe, error } of places) {
    const refusal = error ?? (probe === null ? null : firstRefusal(probe));
    if (refusal === null) continue;
    output.data(`${style.red('✗')} ${destinationId ?? '(source)'}: ${refusal.message}`);
    if (refusal.hint !== null) output.data(`  ${style.cyan('next')}  ${refusal.hint}`);
  }
}

async function probeDestination(
  context: CoreContext,
  location: StorageLocation,
): Promise<Pick<PlaceProbe, 'probe' | 'error'>> {
  try {
    const storage = await context.openStorage(location, { readOnly: false });
    try {
      return { probe: await probeStorage(storage, context.clock, { write: true }), error: null };
    } finally {
      await storage.close();
    }
  } catch (error) {
    return { probe: null, error: errorRecord(error) };
  }
}

const inWords = { atomic: 'atomic', replace_in_steps: 'in steps', none: 'none' } as const;

function cells(
  { latencyMs, clockOffsetMs, rename, conditionalWrites, rights }: Probe,
  { style }: Output,
): string[] {
  const tried = rightNames.filter((right) => rights[right].answer !== 'not_tried');
  return [
    latencyMs === null ? '-' : `${latencyMs.median.toFixed(1)} ms`,
    clockOffsetMs === null ? 'unknown' : signedSeconds(clockOffsetMs),
    inWords[rename],
    conditionalWrites ?? '-',
    tried
      .map((right) => (rights[right].answer === 'yes' ? style.green(right) : style.red(`no ${right}`)))
      .join(' '),
  ];
}

/**
 * Ignores differences of less than two seconds, because servers report whole seconds and the response takes
 * some time.
 */
function signedSeconds(ms: number): string {
  const seconds = Math.round(ms / 1000);
  return Math.abs(ms) < 2000 ? 'agrees' : `${seconds > 0 ? '+' : '−'}${Math.abs(seconds)} s`;
}
