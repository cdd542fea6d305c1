import type { CoreContext } from '../../../core/context.ts';
import { errorRecord, WaybillError, type ErrorRecord } from '../../../core/errors.ts';
import type { Finding } from '../../../core/finding.ts';
import { switchOccurrence } from '../../../core/releases/occurrence.ts';
import { switchRefused } from '../../../core/releases/refusal.ts';
import type { ReleaseId } from '../../../core/releases/release.ts';
import { promote, resume, rollBack, type SwitchResult } from '../../../core/releases/switch.ts';
import { exitCodes } from '../../exit-codes.ts';
import { makeOutput, type Output } from '../../output.ts';
import { setUp, type SetUp } from '../../set-up.ts';
import { untilStopped } from '../../stop-signal.ts';
import { withNotifier } from '../../with-notifier.ts';
import { setUpFor } from './list.ts';
import { atDestination, placeOf, releaseNamed, releasesDestination, type Place } from './place.ts';
import type { RollbackOptions, SwitchOptions } from './releases-options.ts';

type Verb = 'rollback' | 'promote' | 'resume';
type Switching = (context: CoreContext, place: Place) => Promise<SwitchResult>;

/** `waybill releases rollback`. */
export async function rollBackRelease(options: RollbackOptions): Promise<number> {
  const { to, dryRun } = options;
  return change('rollback', options, async (context, place) => {
    const target = to === undefined ? null : await releaseNamed(place, to);
    return rollBack(context, place.storage, target, { dryRun });
  });
}

/** `waybill releases promote`. */
export async function promoteRelease(name: string, options: SwitchOptions): Promise<number> {
  const { dryRun } = options;
  return change('promote', options, async (context, place) =>
    promote(context, place.storage, await releaseNamed(place, name), { dryRun }),
  );
}

/** `waybill releases resume`. */
export async function resumeReleases(options: SwitchOptions): Promise<number> {
  const { dryRun } = options;
  return change('resume', options, async (context, { storage }) => resume(context, storage, { dryRun }));
}

interface Outcome {
  destinationPath: string;
  from: ReleaseId | null;
  to: ReleaseId | null;
  error: ErrorRecord | null;
}

async function change(verb: Verb, options: SwitchOptions, switching: Switching): Promise<number> {
  const output = makeOutput({ json: options.format === 'json', color: options.color });
  return untilStopped(async (signal) => {
    const prepared = await setUp({ ...setUpFor(options), output, signal, notifies: true });
    const destination = releasesDestination(prepared, options);
    const { outcome, warnings } = await carryOut(verb, prepared, options, switching);
    const { dryRun } = options;
    const about = { pipelineId: options.pipeline, destinationId: destination.id };
    const isChanged = outcome.error === null && outcome.from !== outcome.to;
    if (output.isJson)
      output.json('release-switch', { action: verb, dryRun, ...about, ...outcome, isChanged, warnings });
    else {
      for (const warning of warnings) output.warn(warning);
      print(verb, outcome, dryRun, output);
    }
    return outcome.error === null ? 0 : 1;
  });
}

async function carryOut(
  verb: Verb,
  prepared: SetUp,
  options: SwitchOptions,
  switching: Switching,
): Promise<{ outcome: Outcome; warnings: Finding[] }> {
  const destination = releasesDestination(prepared, options);
  const { dryRun, pipeline } = options;
  const { result, warnings } = await withNotifier(
    prepared,
    { dryRun, pipelineIds: [pipeline] },
    async (context) =>
      atDestination(context, destination, { readOnly: dryRun }, async (root) => {
        const place = await placeOf(root, destination, options);
        const outcome = await outcomeOf(place, async () => switching(context, place));
        if (!dryRun && verb !== 'resume' && outcome.error === null && outcome.to !== null)
          if (outcome.from !== outcome.to)
            context.notify?.(switchOccurrence(place.owner, { ...outcome, to: outcome.to }, verb));
        return outcome;
      }),
  );
  return { outcome: result, warnings: [...prepared.warnings, ...warnings] };
}

/** What is refused or fails is an outcome; bad input is thrown. */
async function outcomeOf({ destinationPath }: Place, work: () => Promise<SwitchResult>): Promise<Outcome> {
  const nothing = { destinationPath, from: null, to: null };
  try {
    const done = await work();
    const where = destinationPath === '.' ? 'the destination root' : `"${destinationPath}"`;
    if (done.outcome === 'refused')
      return { ...nothing, error: errorRecord(switchRefused(done.refusal, where)) };
    if (done.outcome === 'switched') return { destinationPath, from: done.from, to: done.to, error: null };
    return { destinationPath, from: done.current, to: done.current, error: null };
  } catch (error) {
    if (!(error instanceof WaybillError) || exitCodes[error.code] !== 1) throw error;
    return { ...nothing, error: errorRecord(error) };
  }
}

const done = { rollback: 'rolled back', promote: 'promoted', resume: 'resumed' } as const;

function print(
  verb: Verb,
  { destinationPath, from, to, error }: Outcome,
  dryRun: boolean,
  { data, style }: Output,
): void {
  if (error !== null) {
    data(`${style.red('failed')}  ${error.message}`);
    if (error.hint !== null) data(`${style.cyan('next:')} ${error.hint}`);
    return;
  }
  const where = `target=${destinationPath}`;
  const head = dryRun ? 'dry run' : done[verb];
  const end = dryRun ? '; nothing was changed' : '';
  if (verb === 'resume') {
    const comes = dryRun ? 'could come' : 'comes';
    data(`${style.green(head)}  ${where}: what was rolled back ${comes} back with the next run${end}`);
    return;
  }
  if (from === to) {
    data(`${style.green('done')}  ${where}: ${to ?? 'no release'} is current already`);
    return;
  }
  data(`${style.green(head)}  ${where}: ${from ?? 'nothing'} → ${to ?? ''}${end}`);
  if (verb === 'rollback' && !dryRun)
    data(
      `${style.cyan('next:')} what was rolled back stays back until a bundle with other content comes, or \`waybill releases resume\``,
    );
}
