import { notifiersOf } from '../../core/config/secret-references.ts';
import type { CoreContext } from '../../core/context.ts';
import type { Finding } from '../../core/lib/errors.ts';
import type { SetUp } from './set-up.ts';

/** How long a command that has published everything waits for receivers. */
const waitAtMostMs = 60_000;

/**
 * Runs `work` with the notifiers of these pipelines, and waits until its events are delivered or given up. An
 * event that was not delivered is a warning, not a failure. In a dry run the notifiers are checked and no
 * event is sent.
 */
export async function withNotifier<T>(
  { config, context }: Pick<SetUp, 'config' | 'context'>,
  options: { dryRun: boolean; pipelineIds?: readonly string[] | undefined },
  work: (context: CoreContext) => Promise<T>,
): Promise<{ result: T; warnings: Finding[] }> {
  const configs = notifiersOf(config, options.pipelineIds);
  if (configs.length === 0) return { result: await work(context), warnings: [] };
  const [{ openNotifiers }, { createNotifier }, { collectWarnings }] = await Promise.all([
    import('../../core/notify/open-notifiers.ts'),
    import('../../core/notify/notifier.ts'),
    import('../../core/notify/outcome-warnings.ts'),
  ]);
  const { notifiers, warnings } = await openNotifiers(configs, context);
  if (options.dryRun) return { result: await work(context), warnings };

  const { clock, log, signal, tracer } = context;
  const collected = collectWarnings();
  const notifier = createNotifier({
    notifiers,
    clock,
    log,
    onOutcome: collected.onOutcome,
    ...(signal === undefined ? {} : { hurry: signal }),
    ...(tracer === undefined ? {} : { tracer }),
  });
  let result: T;
  try {
    result = await work({
      ...context,
      notify: (occurrence, trace) => notifier.notify(occurrence, trace),
    });
  } finally {
    await notifier.close(waitAtMostMs);
  }
  return { result, warnings: [...warnings, ...collected.warnings()] };
}
