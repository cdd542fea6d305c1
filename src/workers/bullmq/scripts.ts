import { readFileSync } from 'node:fs';
import type { RedisClient } from './redis-client.ts';

/**
 * The Lua scripts, one file each, for operations that must be atomic across hosts. Each file's header
 * describes the script and its return value. The names listed here are its arguments from `ARGV[2]` on, in
 * order. `scripts/shared.lua` describes the keys.
 */
export const scripts = {
  reserve: {
    file: 'admission/reserve',
    args: ['slot', 'queueSize', 'lifeMs', 'key', 'rerunFailed', 'pipeline', 'maxWaiting'],
  },
  renew: { file: 'admission/renew', args: ['slot', 'lifeMs', 'key', 'staged', 'stagedLifeMs', 'pipeline'] },
  release: { file: 'admission/release', args: ['slot', 'lifeMs', 'key', 'pipeline'] },
  stage: { file: 'admission/stage', args: ['staged', 'stagedLifeMs'] },
  replay: { file: 'admission/replay', args: ['key', 'digest', 'rerunFailed'] },
  accept: {
    file: 'admission/accept',
    args: ['slot', 'lifeMs', 'key', 'digest', 'runId', 'pipeline', 'job', 'record', 'staged', 'rerunFailed'],
  },
  trigger: {
    file: 'admission/trigger',
    args: ['runId', 'pipeline', 'trigger', 'job', 'record', 'passes', 'latest'],
  },
  unwanted: { file: 'admission/unwanted', args: ['limit'] },
  handedOver: { file: 'runs/handed-over', args: ['pipeline'] },
  take: { file: 'runs/take', args: ['runId', 'owner', 'at', 'pipeline'] },
  save: { file: 'runs/save', args: ['runId', 'owner', 'record'] },
  finish: { file: 'runs/finish', args: ['runId', 'owner', 'record', 'retentionMs', 'maxEnds', 'bytes'] },
  giveBack: { file: 'runs/give-back', args: ['runId', 'owner', 'record'] },
  retry: {
    file: 'runs/retry',
    args: ['runId', 'owner', 'record', 'pauseMs', 'maxEnds', 'blocks'],
  },
  retryNow: { file: 'runs/retry-now', args: ['runId', 'record'] },
  retrying: { file: 'runs/retrying', args: ['pipeline'] },
  newer: { file: 'runs/newer', args: ['runId', 'limit'] },
  supersede: { file: 'runs/supersede', args: ['runId', 'record', 'retentionMs', 'bytes'] },
  note: { file: 'runs/note', args: ['runId', 'before', 'after'] },
  cancel: { file: 'runs/cancel', args: ['runId', 'record', 'retentionMs'] },
  cancelled: { file: 'runs/cancelled', args: [] },
  rerun: {
    file: 'runs/rerun',
    args: ['runId', 'newRunId', 'record', 'job', 'oldJob', 'hasBundle', 'queueSize', 'maxWaiting'],
  },
  overkept: { file: 'runs/overkept', args: ['keepMs', 'maxBundles', 'maxBytes', 'limit'] },
  find: { file: 'runs/find', args: [] },
  list: { file: 'runs/list', args: ['before', 'limit'] },
  overview: { file: 'runs/overview', args: [] },
  waitingSince: { file: 'runs/waiting-since', args: [] },
  place: { file: 'runs/place', args: ['runId'] },
  changes: { file: 'runs/changes', args: ['after', 'limit', 'epoch'] },
  finished: { file: 'runs/finished', args: [] },
  depth: { file: 'runs/depth', args: [] },
  pace: { file: 'runs/pace', args: ['pipeline'] },
  pause: { file: 'pipelines/pause', args: ['pipeline', 'since', 'reason'] },
  mayTake: { file: 'pipelines/may-take', args: ['pipeline'] },
  expired: { file: 'runs/expired', args: ['limit'] },
  forget: { file: 'runs/forget', args: ['runId'] },
  tellEvent: { file: 'events/tell', args: ['host', 'lifeMs', 'runId', 'event', 'call'] },
  takeEvents: { file: 'events/take', args: ['host', 'lifeMs', 'limit', 'own'] },
  endEvent: { file: 'events/end', args: ['field'] },
  leaveEvents: { file: 'events/leave', args: ['host'] },
  keepUndelivered: {
    file: 'events/keep',
    args: ['notifier', 'event', 'happened', 'undelivered', 'limit'],
  },
  removeUndelivered: { file: 'events/remove', args: ['notifier', 'event'] },
  countUndelivered: { file: 'events/counts', args: [] },
  claimUndelivered: { file: 'events/claim', args: ['notifier', 'owner', 'lifeMs'] },
  hold: { file: 'runs/hold', args: ['runId', 'owner', 'holdMs'] },
  waiting: { file: 'runs/waiting', args: [] },
} as const satisfies Record<string, { file: string; args: readonly string[] }>;

type ScriptName = keyof typeof scripts;
type ScriptArguments<Name extends ScriptName> = Record<
  (typeof scripts)[Name]['args'][number],
  string | number
>;

/**
 * Runs a script with named arguments. `rest` is appended for scripts that take a list. Resolves with the
 * script's return value. Throws ioredis errors.
 */
export type RunScript = <Name extends ScriptName>(
  name: Name,
  args: ScriptArguments<Name>,
  rest?: readonly string[],
) => Promise<unknown>;

type Commands = Record<`waybill:${ScriptName}`, (...args: (string | number)[]) => Promise<unknown>>;

/**
 * Defines the scripts as commands of this connection. ioredis sends only a script's hash, and resends the
 * text if Redis lost it in a restart.
 *
 * The scripts build their keys from `root`. In a Cluster it has a hash tag, so all of them are on one node.
 * The two declared keys have the same tag and never exist. While the Cluster moves their slot, Redis rejects
 * any multi-key call with a missing key (TRYAGAIN) before the script runs. Therefore no script ever sees only
 * some of its keys.
 */
export function defineScripts(redis: RedisClient, root: string): RunScript {
  const shared = scriptText('shared');
  for (const [name, { file }] of Object.entries(scripts))
    redis.defineCommand(`waybill:${name}`, { lua: shared + scriptText(file), numberOfKeys: 2 });
  const commands = redis as RedisClient & Commands;
  return (name, args, rest = []) => {
    const given: Readonly<Record<string, string | number>> = args;
    const ordered = scripts[name].args.map((arg) => given[arg] as string | number);
    return commands[`waybill:${name}`](`${root}:slot`, `${root}:move`, root, ...ordered, ...rest);
  };
}

/** @param name Path below `scripts/`, without the `.lua` extension. */
export function scriptText(name: string): string {
  return readFileSync(new URL(`./scripts/${name}.lua`, import.meta.url), 'utf8');
}
