import { readFileSync } from 'node:fs';
import type { ChainableCommander } from 'ioredis';
import type { RedisClient } from './redis-client.ts';

/**
 * The Lua scripts, for operations that have to be atomic across hosts. Each is a file below `scripts/`, whose
 * header explains what it does and returns. The names listed here are its arguments, in order, starting at
 * `ARGV[2]`. The keys are documented in `scripts/shared.lua`.
 */
export const scripts = {
  'admission/accept': [
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
  'admission/confirm': [],
  'admission/release': ['slot', 'lifeMs', 'key', 'pipeline'],
  'admission/renew': ['slot', 'lifeMs', 'key', 'staged', 'stagedLifeMs', 'pipeline'],
  'admission/replay': ['key', 'digest', 'rerunFailed'],
  'admission/reserve': ['slot', 'queueSize', 'lifeMs', 'key', 'rerunFailed', 'pipeline', 'maxWaiting'],
  'admission/retract': ['runId'],
  'admission/stage': ['staged', 'stagedLifeMs'],
  'admission/trigger': ['runId', 'pipeline', 'trigger', 'job', 'record', 'passes', 'latest'],
  'admission/unwanted': ['limit'],
  'events/claim': ['notifier', 'owner', 'lifeMs'],
  'events/counts': [],
  'events/end': ['field'],
  'events/keep': ['notifier', 'event', 'happened', 'undelivered', 'limit'],
  'events/leave': ['host'],
  'events/remove': ['notifier', 'event'],
  'events/take': ['host', 'lifeMs', 'limit', 'own'],
  'events/tell': ['host', 'lifeMs', 'runId', 'event', 'call'],
  'pipelines/may-take': ['pipeline'],
  'pipelines/pause': ['pipeline', 'since', 'reason'],
  'runs/cancel': ['runId', 'record', 'retentionMs'],
  'runs/cancelled': [],
  'runs/changes': ['after', 'limit', 'epoch'],
  'runs/depth': [],
  'runs/expired': ['limit'],
  'runs/find': [],
  'runs/finish': ['runId', 'owner', 'record', 'retentionMs', 'maxEnds', 'bytes'],
  'runs/finished': [],
  'runs/forget': ['runId'],
  'runs/give-back': ['runId', 'owner', 'record'],
  'runs/handed-over': ['pipeline'],
  'runs/hold': ['runId', 'owner', 'holdMs'],
  'runs/list': ['before', 'limit'],
  'runs/newer': ['runId', 'limit'],
  'runs/note': ['runId', 'before', 'after'],
  'runs/outbox': ['pipeline', 'confirmed'],
  'runs/overkept': ['keepMs', 'maxBundles', 'maxBytes', 'limit'],
  'runs/overview': [],
  'runs/pace': ['pipeline'],
  'runs/place': ['runId'],
  'runs/reopen': [],
  'runs/rerun': ['runId', 'newRunId', 'record', 'job', 'oldJob', 'hasBundle', 'queueSize', 'maxWaiting'],
  'runs/retry': ['runId', 'owner', 'record', 'pauseMs', 'maxEnds', 'blocks'],
  'runs/retry-now': ['runId', 'record'],
  'runs/retrying': ['pipeline'],
  'runs/save': ['runId', 'owner', 'record'],
  'runs/supersede': ['runId', 'record', 'retentionMs', 'bytes'],
  'runs/take': ['runId', 'owner', 'at', 'pipeline'],
  'runs/waiting': [],
  'runs/waiting-since': [],
} as const satisfies Record<string, readonly string[]>;

type ScriptName = keyof typeof scripts;
type ScriptArguments<Name extends ScriptName> = Record<(typeof scripts)[Name][number], string | number>;

/**
 * Calls a script with named arguments and resolves with its return value. For scripts that accept a list,
 * `rest` is appended.
 */
export type RunScript<Answer = unknown> = <Name extends ScriptName>(
  name: Name,
  args: ScriptArguments<Name>,
  rest?: readonly string[],
) => Promise<Answer>;

type Commands = Record<`waybill:${ScriptName}`, (...args: (string | number)[]) => Promise<unknown>>;

/**
 * Defines the scripts as commands on this connection. ioredis only sends a script's hash, and sends the full
 * text again if Redis lost it in a restart. The returned function throws ioredis errors.
 *
 * Scripts build their keys from `root`. In a Cluster, `root` contains a hash tag, so that all of the keys are
 * on the same node. The two declared keys have the same tag, but never exist. While the Cluster moves their
 * slot to another node, Redis therefore rejects the call with TRYAGAIN before the script starts, because a
 * multi-key call must not have missing keys. As a result, a script never runs with only some of its keys
 * present.
 */
export function defineScripts(redis: RedisClient, root: string): RunScript {
  const shared = scriptText('shared');
  for (const name of Object.keys(scripts))
    redis.defineCommand(`waybill:${name}`, { lua: shared + scriptText(name), numberOfKeys: 2 });
  return scriptCaller(redis, root);
}

/**
 * Calls the scripts on a client that has them defined, or on one of its pipelines. On a pipeline, the call
 * only queues the script, and its return value has no meaning.
 */
export function scriptCaller(target: RedisClient | ChainableCommander, root: string): RunScript {
  const commands = target as typeof target & Commands;
  return (name, args, rest = []) => {
    const named: Readonly<Record<string, string | number>> = args;
    const ordered = scripts[name].map((arg) => named[arg] as string | number);
    return commands[`waybill:${name}`](`${root}:slot`, `${root}:move`, root, ...ordered, ...rest);
  };
}

/** Splits an answer with alternating values into pairs. */
export function pairsOf(answer: readonly string[]): [string, string][] {
  return answer.flatMap((first, index): [string, string][] =>
    index % 2 === 0 ? [[first, answer[index + 1] ?? '']] : [],
  );
}

/** @param name The path below `scripts/`, without the `.lua` extension. */
export function scriptText(name: string): string {
  return readFileSync(new URL(`./scripts/${name}.lua`, import.meta.url), 'utf8');
}
