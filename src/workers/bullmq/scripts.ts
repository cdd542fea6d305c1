import { readFileSync } from 'node:fs';
import type { ChainableCommander } from 'ioredis';
import type { RedisClient } from './redis-client.ts';

/**
 * The Lua scripts, one file each, for operations that have to be atomic across hosts. The header of each file
 * explains what the script does and returns. The names listed here are its arguments, in order, starting at
 * `ARGV[2]`. The keys are documented in `scripts/shared.lua`.
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
    args: [
      'slot',
      'lifeMs',
      'key',
      'digest',
      'runId',
      'pipeline',
      'job',
      'record',
      'staged',
      'rerunFailed',
      'unconfirmedMs',
    ],
  },
  trigger: {
    file: 'admission/trigger',
    args: ['runId', 'pipeline', 'trigger', 'job', 'record', 'passes', 'latest'],
  },
  confirm: { file: 'admission/confirm', args: [] },
  retract: { file: 'admission/retract', args: ['runId'] },
  unwanted: { file: 'admission/unwanted', args: ['limit'] },
  outbox: { file: 'runs/outbox', args: ['pipeline', 'confirmed'] },
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
  reopen: { file: 'runs/reopen', args: [] },
} as const satisfies Record<string, { file: string; args: readonly string[] }>;

type ScriptName = keyof typeof scripts;
type ScriptArguments<Name extends ScriptName> = Record<
  (typeof scripts)[Name]['args'][number],
  string | number
>;

/**
 * Calls a script with named arguments and resolves with its return value. For scripts that accept a list,
 * `rest` is appended. Throws ioredis errors.
 */
export type RunScript = <Name extends ScriptName>(
  name: Name,
  args: ScriptArguments<Name>,
  rest?: readonly string[],
) => Promise<unknown>;

type Commands = Record<`waybill:${ScriptName}`, (...args: (string | number)[]) => Promise<unknown>>;

/**
 * Defines the scripts as commands on this connection. ioredis only sends a script's hash, and sends the full
 * text again if Redis lost it in a restart.
 *
 * Scripts build their keys from `root`. In a Cluster, `root` contains a hash tag, so that all of the keys are
 * on the same node. The two declared keys have the same tag, but never exist. This way, if the Cluster is
 * just moving their slot to another node, Redis rejects the call with TRYAGAIN before the script starts,
 * because a multi-key call can't have missing keys then. A script therefore never runs with only some of its
 * keys present.
 */
export function defineScripts(redis: RedisClient, root: string): RunScript {
  const shared = scriptText('shared');
  for (const [name, { file }] of Object.entries(scripts))
    redis.defineCommand(`waybill:${name}`, { lua: shared + scriptText(file), numberOfKeys: 2 });
  return scriptCaller(redis, root);
}

/**
 * Calls the scripts on a client that has them defined, or on one of its pipelines. On a pipeline, the call
 * only queues the script, and its return value has no meaning.
 */
export function scriptCaller(target: RedisClient | ChainableCommander, root: string): RunScript {
  const commands = target as typeof target & Commands;
  return (name, args, rest = []) => {
    const given: Readonly<Record<string, string | number>> = args;
    const ordered = scripts[name].args.map((arg) => given[arg] as string | number);
    return commands[`waybill:${name}`](`${root}:slot`, `${root}:move`, root, ...ordered, ...rest);
  };
}

/** @param name The path below `scripts/`, without the `.lua` extension. */
export function scriptText(name: string): string {
  return readFileSync(new URL(`./scripts/${name}.lua`, import.meta.url), 'utf8');
}
