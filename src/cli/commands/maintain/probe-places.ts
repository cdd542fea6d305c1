import type { PipelineConfig } from '../../../core/config/config.ts';
import type { CoreContext } from '../../../core/context.ts';
import { type ErrorRecord, errorRecord, hasCode } from '../../../core/lib/errors.ts';
import { firstRefusal, type Probe, probeStorage, rightNames } from '../../../core/maintain/probe.ts';
import type { OpenOptions } from '../../../core/storage/backend.ts';
import { describeLocation, type StorageLocation } from '../../../core/storage/backends.ts';
import type { Storage } from '../../../core/storage/storage.ts';
import { columns, type Output } from '../../output/output.ts';

/** The result for a source or destination, or the error if it could not be opened. */
export interface PlaceProbe {
  /** null if this is the source. */
  destinationId: string | null;
  location: string;
  /** false if the first publication creates the root directory. The probe has written nothing then. */
  exists: boolean;
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
  const places: PlaceProbe[] = [{ destinationId: null, location, exists: true, probe, error: null }];
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
  for (const { destinationId, exists, probe, error } of places) {
    if (!exists)
      output.data(
        `  ${style.cyan(destinationId ?? '(source)')}  the directory does not exist; the first publication creates it`,
      );
    const refusal = error ?? (probe === null ? null : firstRefusal(probe));
    if (refusal === null) continue;
    output.data(`${style.red('✗')} ${destinationId ?? '(source)'}: ${refusal.message}`);
    if (refusal.hint !== null) output.data(`  ${style.cyan('next')}  ${refusal.hint}`);
  }
}

/** Writes nothing if the root directory does not exist, because a write would create it. */
async function probeDestination(
  context: CoreContext,
  location: StorageLocation,
): Promise<Omit<PlaceProbe, 'destinationId' | 'location'>> {
  const options = { readOnly: false, dryRun: true };
  try {
    const probe = await probeOpened(context, location, { ...options, mustExist: true });
    return { exists: true, probe, error: null };
  } catch (error) {
    // Buckets are never created.
    if (location.backend === 's3' || !hasCode(error, 'storage_not_found'))
      return { exists: true, probe: null, error: errorRecord(error) };
  }
  try {
    return { exists: false, probe: await probeOpened(context, location, options), error: null };
  } catch (error) {
    return { exists: false, probe: null, error: errorRecord(error) };
  }
}

async function probeOpened(
  context: CoreContext,
  location: StorageLocation,
  options: OpenOptions,
): Promise<Probe> {
  const storage = await context.openStorage(location, options);
  try {
    return await probeStorage(storage, context.clock, { write: options.mustExist === true });
  } finally {
    await storage.close();
  }
}

const inWords = { atomic: 'atomic', replace_in_steps: 'in steps', none: 'none' } as const;

function cells(
  { latencyMs, clockOffsetMs, rename, conditionalWrites, rights }: Probe,
  { style }: Output,
): string[] {
  const triedRights = rightNames.filter((right) => rights[right].answer !== 'not_tried');
  return [
    latencyMs === null ? '-' : `${latencyMs.median.toFixed(1)} ms`,
    clockOffsetMs === null ? 'unknown' : signedSeconds(clockOffsetMs),
    inWords[rename],
    conditionalWrites ?? '-',
    triedRights
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
