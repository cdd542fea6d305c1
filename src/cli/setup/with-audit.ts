import { userInfo } from 'node:os';
import type { Act, ActEntry, Actor, AuditRecord, Fact } from '../../core/audit/record.ts';
import { notifiersOf } from '../../core/config/secret-references.ts';
import type { CoreContext } from '../../core/context.ts';
import { asWaybillError, type ErrorRecord, type Finding } from '../../core/lib/errors.ts';
import type { DeliveryOutcome } from '../../core/notify/delivery-queue.ts';
import { auditEntryOf } from '../../core/notify/occurrence-acts.ts';
import { exitCodes } from '../exit-codes.ts';
import { type CommandContext, withNotifier } from './set-up.ts';

/** The action of a command, to be recorded in the audit trail. */
export interface CommandAct {
  act: Act;
  /** Dry runs are not recorded, because they change nothing. */
  dryRun: boolean;
  pipelineId?: string | null;
  /** The pipelines whose notifiers receive the records. Default: `pipelineId`, or all. */
  pipelineIds?: readonly string[] | undefined;
  destinationId?: string | null;
  detail?: Readonly<Record<string, Fact>>;
}

/**
 * Runs a command and records it in the audit trail, if there is one. Publications that it makes through the
 * context passed to `work` are also recorded. If records cannot be written, throws `audit_unavailable`
 * without running the command.
 *
 * @param failureOf Returns the error if the result is a failure, and null if it is a success. If this is
 *   omitted, the record is written before the command runs, and says that it was started.
 */
export async function withAudit<T>(
  { config, context }: Pick<CommandContext, 'config' | 'context'>,
  { dryRun, pipelineIds, ...about }: CommandAct,
  work: (context: CoreContext) => Promise<T>,
  failureOf?: (result: T) => Pick<ErrorRecord, 'code'> | null,
): Promise<T> {
  if (config.audit === null || dryRun) return work(context);
  const { openTrail } = await import('../../core/audit/trail.ts');
  const followers = await openFollowers(
    { config, context },
    pipelineIds ?? (about.pipelineId == null ? undefined : [about.pipelineId]),
  );
  const trail = await openTrail(config.audit, { ...context, ...followers });
  const actor = actorOfProcess();
  const entry: ActEntry = { ...about, result: 'done', actor };
  const notify: CoreContext['notify'] = (occurrence, trace) => {
    const publication = auditEntryOf(occurrence, actor);
    if (publication !== null) void trail.append(publication);
    context.notify?.(occurrence, trace);
  };
  try {
    await trail.requireWritable();
    if (failureOf === undefined) await trail.append(entry);
    const result = await work({ ...context, notify });
    const failure = failureOf?.(result) ?? null;
    if (failureOf !== undefined) await trail.append(failure === null ? entry : failedEntry(entry, failure));
    return result;
  } catch (thrown) {
    if (failureOf !== undefined) await trail.append(failedEntry(entry, asWaybillError(thrown)));
    throw thrown;
  } finally {
    await trail.close();
    await followers?.close();
  }
}

/** How long to wait for the delivery of audit records, in milliseconds. */
const deliveryTimeoutMs = 60_000;

/**
 * Opens the notifiers that receive audit records. Returns null if there are none. A failed delivery is only a
 * warning in the log.
 */
async function openFollowers(
  { config, context }: Pick<CommandContext, 'config' | 'context'>,
  pipelineIds: readonly string[] | undefined,
): Promise<{ onRecord: (record: AuditRecord) => void; close: () => Promise<void> } | null> {
  const configs = notifiersOf(config, pipelineIds).filter(({ events }) => events.includes('audit.recorded'));
  if (configs.length === 0) return null;
  const { clock, log, signal: stopping, tracer } = context;
  const [{ openNotifiers }, { Notifier }, { logOutcome }] = await Promise.all([
    import('../../core/notify/sink-kinds.ts'),
    import('../../core/notify/notifier.ts'),
    import('../../core/notify/outcome-warnings.ts'),
  ]);
  const { notifiers } = await openNotifiers(configs, context);
  const onOutcome = (outcome: DeliveryOutcome): void => logOutcome(outcome, log);
  const notifier = new Notifier({ notifiers, clock, log, onOutcome, stopping, tracer });
  return {
    onRecord: (record) => notifier.notify({ type: 'audit.recorded', data: { record } }),
    close: () => notifier.close(deliveryTimeoutMs),
  };
}

/**
 * Like `withAudit`, but also sends events to the pipeline's notifiers. Returns the result with the warnings
 * of the notifiers.
 */
export function withAuditAndNotifiers<T>(
  prepared: Pick<CommandContext, 'config' | 'context'>,
  act: CommandAct & { pipelineId: string },
  work: (context: CoreContext) => Promise<T>,
  failureOf: (result: T) => Pick<ErrorRecord, 'code'> | null,
): Promise<{ result: T; warnings: Finding[] }> {
  const { dryRun, pipelineId } = act;
  return withAudit(
    prepared,
    act,
    (context) => withNotifier({ ...prepared, context }, { dryRun, pipelineIds: [pipelineId] }, work),
    ({ result }) => failureOf(result),
  );
}

function failedEntry(entry: ActEntry, { code }: Pick<ErrorRecord, 'code'>): ActEntry {
  return { ...entry, result: exitCodes[code] === 2 ? 'refused' : 'failed', code };
}

/** Returns the user who runs this process and, with sudo, the user who called it. */
function actorOfProcess(): Actor {
  const uid = process.getuid?.() ?? null;
  const sudoUser = process.env['SUDO_USER'] ?? null;
  return {
    type: 'os_user',
    id: userName() ?? (uid === null ? null : String(uid)),
    uid,
    ...(sudoUser === null ? {} : { sudo_user: sudoUser }),
  };
}

/** Returns null if the user has no name. In a container, there may be no entry for it. */
function userName(): string | null {
  try {
    return userInfo().username;
  } catch {
    return null;
  }
}
