import { WaybillError } from '../../core/lib/errors.ts';

/** Redis errors that are caused by the server's current state rather than by the call itself. */
const transientError =
  /^(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|MOVED|ASK|OOM|MISCONF|BUSY|NOREPLICAS|NOAUTH|WRONGPASS|NOPERM|UNBLOCKED)\b/;

/** Why Redis rejects a command, and what the administrator can do about it. */
export interface Refusal {
  why: string;
  hint: string;
}

/** Keyed by the reply's first word. */
const refusals: Record<string, Refusal> = {
  OOM: {
    why: 'Redis is out of memory and stores nothing',
    hint: 'raise maxmemory of Redis, or remove other data from it',
  },
  READONLY: { why: 'this Redis is a read-only replica', hint: 'let the URL name the primary' },
  MISCONF: {
    why: 'Redis cannot write to its disk and stores nothing',
    hint: 'free space on the disk of Redis; its log has the cause',
  },
  NOPERM: {
    why: 'the Redis user lacks a permission',
    hint: 'give the user of the URL all commands on the keys and channels that docs/queue.md lists',
  },
  NOAUTH: { why: 'Redis asks for a password', hint: 'write the password into the URL' },
  WRONGPASS: { why: 'Redis does not accept the password', hint: 'correct the password in the URL' },
  NOREPLICAS: {
    why: 'Redis has fewer replicas than min-replicas-to-write',
    hint: 'check the replicas: `redis-cli info replication` on the primary lists them',
  },
  WRONGTYPE: {
    why: 'another program has replaced a key of the queue by one of another type',
    hint: 'remove the key: `redis-cli --scan` with the prefix of the queue lists them, and `type` shows the type',
  },
};
const refusedBy = new RegExp(`\\b(?:${Object.keys(refusals).join('|')})\\b`);

/**
 * Strips a BullMQ or ioredis error of everything that is not safe to log. The original includes the command
 * and its arguments, which for `AUTH` means the password.
 */
export function safeError(error: unknown): Error {
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  return new Error(name === 'Error' || name === 'ReplyError' ? message : `${name}: ${message}`);
}

/**
 * Returns a `queue_unavailable` error, unless the error is a bug. `refusal` is the reason why Redis currently
 * rejects commands, or null if it is not known.
 */
export function asUnavailable(error: unknown, refusal: Refusal | null): WaybillError | Error {
  if (error instanceof WaybillError) return error;
  const cause = safeError(error);
  if (isReply(error) && refusal === null && !transientError.test(cause.message)) return cause;
  if (refusal !== null)
    return new WaybillError('queue_unavailable', `the queue of this daemon accepts nothing: ${refusal.why}`, {
      cause,
      hint: refusal.hint,
    });
  return new WaybillError('queue_unavailable', 'the queue of this daemon cannot be reached', {
    cause,
    hint: 'try again shortly',
  });
}

/**
 * Finds the explanation for an error. Returns null if Redis did not reject the command for one of the known
 * reasons.
 */
export function refusalOf(error: unknown): Refusal | null {
  // If the command was called by a script, Redis wraps the reply.
  const [word = ''] = isReply(error) ? (refusedBy.exec(error.message) ?? []) : [];
  return refusals[word] ?? null;
}

/**
 * Reports whether Redis rejected a command because of a value with the wrong type or format, which means that
 * another program has overwritten it.
 */
export function isDamage(error: unknown): error is Error {
  return isReply(error) && /^(?:ERR|WRONGTYPE)\b/.test(error.message);
}

export function isReply(error: unknown): error is Error {
  return error instanceof Error && error.name === 'ReplyError';
}
