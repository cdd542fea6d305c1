import type { PipelineConfig } from '../../../../core/config/config.ts';
import {
  type ErrorRecord,
  errorRecord,
  type Finding,
  hasCode,
  WaybillError,
} from '../../../../core/lib/errors.ts';
import { inCamelCase } from '../../../../core/lib/json-document.ts';
import { describeBundlePath } from '../../../../core/lib/paths.ts';
import { plural, shellQuoted } from '../../../../core/lib/text.ts';
import { refreshIfListed } from '../../../../core/publish/root-index/update-root-index.ts';
import { type TidiedPath, tidyDestination } from '../../../../core/publish/unpublish/retire-releases.ts';
import {
  notPublished,
  openBundlePath,
  severalPaths,
  withDestination,
} from '../../../../core/releases/bundle-place.ts';
import { switchRefused } from '../../../../core/releases/switch.ts';
import {
  type AppliedSwitch,
  type Switch,
  switchAt,
  type SwitchRequest,
} from '../../../../core/releases/switch-at.ts';
import { exitCodes } from '../../../exit-codes.ts';
import { type Output } from '../../../output/output.ts';
import type { Io, OptionsFor } from '../../../setup/command.ts';
import { type CommandContext, setUpPipeline } from '../../../setup/set-up.ts';
import { withAudit, withAuditAndNotifiers } from '../../../setup/with-audit.ts';
import type {
  activateCommand,
  dropCommand,
  EitherFlags,
  resumeCommand,
  rollbackCommand,
} from './commands.ts';
import { atDaemon, daemonOf, type DaemonPlace, localFlags } from './place-flags.ts';
import { pathOf, releasesDestination } from './show.ts';

type SwitchFlags = OptionsFor<typeof resumeCommand>;

export async function rollBackRelease(flags: OptionsFor<typeof rollbackCommand>, io: Io): Promise<number> {
  const { to, release } = flags;
  // `--to` named the release before it named a daemon.
  if (to !== undefined && /^[\w-]+$/.test(to)) {
    if (release !== undefined)
      throw new WaybillError('usage', `two releases are named: "${release}" and "${to}"`, {
        hint: 'leave out --to, or give it the URL of a daemon',
      });
    const { to: named, ...others } = flags;
    return activate(others, { verb: 'rollback', release: named }, io);
  }
  return activate(flags, { verb: 'rollback', release }, io);
}

export async function promoteRelease(flags: OptionsFor<typeof activateCommand>, io: Io): Promise<number> {
  return activate(flags, { verb: 'promote', release: flags.release }, io);
}

type ReleaseActivation = Switch & { verb: 'rollback' | 'promote' };

async function activate(
  flags: EitherFlags & { dryRun: boolean; color: boolean },
  request: ReleaseActivation,
  io: Io,
): Promise<number> {
  const daemon = daemonOf(flags);
  if (daemon === null) return change(localFlags(flags), request, io);
  return atDaemon(daemon, io, async (at) => {
    const { output } = io;
    const { dryRun } = flags;
    const { verb } = request;
    const print = (outcome: SwitchOutcome) => (): void =>
      printSwitch(output, { ...outcome, request: { ...request, dryRun }, place: `--to ${daemon.to}` });
    const { pipeline: pipelineId, destination: destinationId } = at.place;
    try {
      const release = request.release ?? (await lastGoodAt(at));
      const rollback = verb === 'rollback';
      const switched = await at.client.releases.activate(at.place, release, { rollback, dryRun });
      output.result(
        'release-switch',
        switched,
        print({ ...(inCamelCase(switched) as SwitchOutcome), error: null }),
      );
      return 0;
    } catch (error) {
      if (!hasCode(error, 'release_unusable')) throw error;
      const about = { action: verb, dryRun, pipelineId, destinationId };
      const none = { destinationPath: at.place.path ?? '.', from: null, to: null, error: errorRecord(error) };
      output.result('release-switch', { ...about, ...none, isChanged: false, warnings: [] }, print(none));
      return 1;
    }
  });
}

/** Returns the release that a rollback goes to. Throws the same errors as a rollback here. */
async function lastGoodAt({ client, place }: DaemonPlace): Promise<string> {
  const { paths } = await client.releases.list(place);
  const [only, ...others] = paths.filter(({ releases }) => releases.length > 0);
  if (only === undefined) throw notPublished(place.destination);
  if (others.length > 0) throw severalPaths([only, ...others].map((one) => one.destination_path));
  const good = only.releases.find((one) => one.is_last_good);
  if (good !== undefined) return good.id;
  throw switchRefused({ why: 'nothing_to_go_back_to' }, describeBundlePath(only.destination_path));
}

export async function resumeReleases(options: SwitchFlags, io: Io): Promise<number> {
  return change(options, { verb: 'resume' }, io);
}

export async function dropChannel(options: OptionsFor<typeof dropCommand>, io: Io): Promise<number> {
  return change(options, { verb: 'drop', channel: options.channel }, io);
}

interface SwitchOutcome extends AppliedSwitch {
  destinationPath: string;
  error: ErrorRecord | null;
}

async function change(options: SwitchFlags, change: Switch, { output, signal }: Io): Promise<number> {
  const prepared = await setUpPipeline(options, { output, signal, notifies: true });
  const destination = releasesDestination(prepared.pipeline, options);
  const { dryRun } = options;
  const request = { ...change, dryRun };
  const { outcome, warnings } = await carryOut(prepared, options, request);
  const pipelineId = prepared.pipeline.id;
  const about = { action: request.verb, dryRun, pipelineId, destinationId: destination.id };
  const isChanged = outcome.error === null && outcome.from !== outcome.to;
  output.result('release-switch', { ...about, ...outcome, isChanged, warnings }, () =>
    printSwitch(output, { ...outcome, request, place: placeText(options, about) }),
  );
  return outcome.error === null ? 0 : 1;
}

/** Returns the options that select the same bundle path in another command. */
function placeText(
  { config, path }: SwitchFlags,
  { pipelineId, destinationId }: { pipelineId: string; destinationId: string },
): string {
  const named = `--config ${shellQuoted(config)} --pipeline ${pipelineId} --destination ${destinationId}`;
  return path === undefined ? named : `${named} --path ${shellQuoted(path)}`;
}

async function carryOut(
  prepared: CommandContext & { pipeline: PipelineConfig },
  options: SwitchFlags,
  request: SwitchRequest,
): Promise<{ outcome: SwitchOutcome; warnings: Finding[] }> {
  const destination = releasesDestination(prepared.pipeline, options);
  const { dryRun } = options;
  const owner = { pipelineId: prepared.pipeline.id, destinationId: destination.id };
  const found: Finding[] = [];
  const act = { act: actOf[request.verb], dryRun, ...owner, detail: factsOf(request) };
  const { result, warnings } = await withAuditAndNotifiers(
    prepared,
    act,
    async (context) =>
      withDestination(context, destination, { readOnly: dryRun }, async (root) => {
        const place = await openBundlePath(root, destination, pathOf(options));
        const { destinationPath } = place;
        return outcomeOf(destinationPath, async () => {
          const switched = await switchAt(context, owner, place, request);
          const index = { owner, destination };
          found.push(...(await refreshIfListed(context, root, index, [destinationPath], { dryRun })));
          return switched;
        });
      }),
    ({ error }) => error,
  );
  return { outcome: result, warnings: [...prepared.warnings, ...found, ...warnings] };
}

const actOf = {
  rollback: 'release.rollback',
  promote: 'release.activate',
  resume: 'release.resume',
  drop: 'release.drop',
} as const;

function factsOf(request: Switch): Record<string, string> {
  if (request.verb === 'drop') return { channel: request.channel };
  return 'release' in request && request.release !== undefined ? { release: request.release } : {};
}

/** Runs `work`. If it is rejected or fails, returns that as an outcome. Throws if the input is wrong. */
async function outcomeOf(
  destinationPath: string,
  work: () => Promise<AppliedSwitch>,
): Promise<SwitchOutcome> {
  try {
    return { destinationPath, ...(await work()), error: null };
  } catch (error) {
    if (!(error instanceof WaybillError) || exitCodes[error.code] !== 1) throw error;
    return { destinationPath, from: null, to: null, error: errorRecord(error) };
  }
}

const verbs = { rollback: 'rolled back', promote: 'promoted', resume: 'resumed', drop: 'dropped' } as const;

interface PrintedSwitch extends SwitchOutcome {
  request: SwitchRequest;
  /** The options that select the same bundle path in another command. */
  place: string;
}

function printSwitch(
  output: Output,
  { request, destinationPath, from, to, resumed = [], error, place }: PrintedSwitch,
): void {
  const { data, style } = output;
  if (error !== null) {
    output.failure('failed', error);
    return;
  }
  const { verb, dryRun } = request;
  const where = `target=${destinationPath}`;
  const head = dryRun ? 'dry run' : verbs[verb];
  const end = dryRun ? '; nothing was changed' : '';
  if (verb === 'resume') {
    if (resumed.length === 0) data(`${style.green('done')}  ${where}: no release was rolled back`);
    else data(`${style.green(head)}  ${where}: the next run may publish ${resumed.join(', ')} again${end}`);
    return;
  }
  if (request.verb === 'drop') {
    data(
      `${style.green(head)}  ${where}: channel ${request.channel}, which led to ${from ?? 'nothing'}${end}`,
    );
    return;
  }
  if (from === to) {
    data(`${style.green('done')}  ${where}: ${to ?? 'no release'} is current already`);
    return;
  }
  data(`${style.green(head)}  ${where}: ${from ?? 'nothing'} → ${to ?? ''}${end}`);
  if (verb === 'rollback' && !dryRun) {
    const undo = `waybill releases promote ${from ?? 'ID'} ${place}`;
    data(`${style.cyan('next'.padEnd(head.length))}  publish other content; to undo the rollback: ${undo}`);
  }
}

/** Implements `waybill releases tidy`. Tidies one bundle path, or all of them if none is given. */
export async function tidyReleases(options: SwitchFlags, { output, signal }: Io): Promise<number> {
  const prepared = await setUpPipeline(options, { output, signal });
  const { warnings, pipeline } = prepared;
  const destination = releasesDestination(pipeline, options);
  const { dryRun } = options;
  const about = { pipelineId: pipeline.id, destinationId: destination.id };
  const paths = await withAudit(
    prepared,
    { act: 'release.tidy', dryRun, ...about },
    (context) =>
      withDestination(context, destination, { readOnly: dryRun }, async (root) =>
        tidyDestination(context, root, destination, { dryRun, path: pathOf(options) ?? null }),
      ),
    () => null,
  );
  output.result('releases-tidied', { dryRun, ...about, paths, warnings }, () =>
    printTidied(paths, dryRun, output),
  );
  return 0;
}

function printTidied(paths: readonly TidiedPath[], dryRun: boolean, { data, note, style }: Output): void {
  for (const { destinationPath, channels, releases } of paths) {
    const removedNames = [
      ...channels.map((name) => `channel ${name}`),
      ...(releases.length === 0 ? [] : [`${plural(releases.length, 'release')} (${releases.join(', ')})`]),
    ];
    const end = dryRun ? '; nothing was changed' : '';
    data(
      `${style.green(dryRun ? 'dry run' : 'removed')}  target=${destinationPath}: ${removedNames.join(', ')}${end}`,
    );
  }
  if (paths.length === 0) note('there is nothing to remove');
}
