import { WaybillError } from '../lib/errors.ts';
import type { TracingSettings } from './settings.ts';

/**
 * Returns a function that decides whether a trace that starts in this process is recorded: by `sample_ratio`,
 * then by `OTEL_TRACES_SAMPLER` and its argument; by default all traces are. The decision depends only on the
 * first 8 hexadecimal digits of the trace id, so every process makes the same one. Traces started elsewhere
 * keep their own decision, as with the `parentbased_…` samplers. Throws `config_invalid` for an invalid
 * variable. Pure.
 */
export function samplingOf(
  { sampleRatio }: Pick<TracingSettings, 'sampleRatio'>,
  env: Readonly<Record<string, string | undefined>>,
): (traceId: string) => boolean {
  const ratio = sampleRatio ?? ratioOf(env);
  const bound = ratio * 2 ** 32;
  return (traceId) => Number.parseInt(traceId.slice(0, 8), 16) < bound;
}

function ratioOf(env: Readonly<Record<string, string | undefined>>): number {
  const name = env['OTEL_TRACES_SAMPLER'] ?? '';
  switch (name.replace(/^parentbased_/, '')) {
    case '':
    case 'always_on':
      return 1;
    case 'always_off':
      return 0;
    case 'traceidratio':
      return argumentOf(env['OTEL_TRACES_SAMPLER_ARG'] ?? '1');
    default:
      throw new WaybillError(
        'config_invalid',
        `OTEL_TRACES_SAMPLER is "${name}", which waybill does not support`,
        {
          hint: 'use always_on, always_off or traceidratio, or set tracing.sample_ratio',
        },
      );
  }
}

function argumentOf(text: string): number {
  const ratio = text.trim() === '' ? Number.NaN : Number(text);
  if (ratio >= 0 && ratio <= 1) return ratio;
  throw new WaybillError('config_invalid', `OTEL_TRACES_SAMPLER_ARG is "${text}", not a number from 0 to 1`, {
    hint: 'set it to a ratio such as 0.1, or set tracing.sample_ratio',
  });
}
