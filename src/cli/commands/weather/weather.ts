import { serveWeather } from '../../daemon/weather.ts';
import { asWaybillError, describeFinding } from '../../../core/lib/errors.ts';
import { logControl, newRedaction } from '../../../core/lib/log.ts';
import { outliveOtherSignals } from '../../process/daemon-process.ts';
import { listenForStop } from '../../process/stop-signal.ts';
import { configFileOf } from './config-file.ts';
import { weatherLine, weatherLog } from './weather-log.ts';

export interface WeatherOptions {
  /** By default READER_CONFIG, or config.yml if that is not set. */
  config?: string;
  verbose: boolean;
}

/**
 * `waybill weather`: runs until SIGINT or SIGTERM; a second signal ends the process at once. A failure to
 * start is reported in one line, with exit code 1.
 */
export async function readWeather({ config, verbose }: WeatherOptions): Promise<number> {
  const redaction = newRedaction();
  const logging = logControl({ verbose });
  const log = weatherLog(redaction, logging);
  outliveOtherSignals(() =>
    log.warn({ signal: 'SIGHUP' }, 'the configuration is not read again; restart the daemon to apply it'),
  );
  const stop = listenForStop((signal) => log.info({ signal }, 'stopping; once more to end at once'));
  try {
    const served = await serveWeather({
      configFile: configFileOf(config),
      log,
      logging,
      env: process.env,
      onSecrets: (values) => redaction.add(values),
    });
    await stop.received;
    await served.close();
    return 0;
  } catch (thrown) {
    const line = weatherLine(reasonOf(thrown));
    process.stderr.write(`${redaction.clean(line)}\n`);
    return 1;
  } finally {
    stop.release();
  }
}

function reasonOf(thrown: unknown): string {
  const { message, hint, findings, cause } = asWaybillError(thrown);
  return [
    message,
    ...causesOf(cause),
    ...findings.map(describeFinding),
    ...(hint === undefined ? [] : [hint]),
  ].join('; ');
}

/** What the system or the database said, once each. */
function causesOf(cause: unknown): string[] {
  if (!(cause instanceof Error)) return [];
  const inner = cause instanceof AggregateError ? cause.errors : [cause.cause];
  const all = [cause.message, ...inner.flatMap((each) => causesOf(each))];
  return [...new Set(all.filter((message) => message !== ''))];
}
