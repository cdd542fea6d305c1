import { asWaybillError, describeFinding } from '../../../core/lib/errors.ts';
import {
  type Log,
  type LogControl,
  logControl,
  newRedaction,
  type Redaction,
} from '../../../core/lib/log.ts';
import { serveWeather } from '../../daemon/serve-weather.ts';
import { isoMicroseconds, logLines } from '../../output/logger.ts';
import { ignoreOtherSignals } from '../../process/daemon-process.ts';
import { listenForStop } from '../../process/stop-signal.ts';
import { configFileOf } from './config-file.ts';

interface WeatherOptions {
  /** The default is READER_CONFIG or, if that is not set, config.yml. */
  config?: string | undefined;
  verbose: boolean;
}

/**
 * Implements `waybill weather`. Runs until it gets SIGINT or SIGTERM. A second signal ends the process
 * immediately. If it cannot start, prints one line and returns 1.
 */
export async function readWeather({ config, verbose }: WeatherOptions): Promise<number> {
  const redaction = newRedaction();
  const logging = logControl({ verbose });
  const log = weatherLog(redaction, logging);
  ignoreOtherSignals(() =>
    log.warn({ signal: 'SIGHUP' }, 'the configuration is not read again; restart the daemon to apply it'),
  );
  const stop = listenForStop((signal) =>
    log.info({ signal }, 'stopping; a second signal ends it immediately'),
  );
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
  const { code, message, hint, findings, cause } = asWaybillError(thrown);
  return [
    message,
    // Its message already says why.
    ...(code === 'config_unreadable' ? [] : causesOf(cause)),
    ...findings.map(describeFinding),
    ...(hint === undefined ? [] : [hint]),
  ].join('; ');
}

/** Returns the messages of an error's causes, from the system or the database, without duplicates. */
function causesOf(cause: unknown): string[] {
  if (!(cause instanceof Error)) return [];
  const inner = cause instanceof AggregateError ? cause.errors : [cause.cause];
  const all = [cause.message, ...inner.flatMap((each) => causesOf(each))];
  return [...new Set(all.filter((message) => message !== ''))];
}

type Level = 'debug' | 'info' | 'warn' | 'error';

/**
 * Writes log lines to stderr if their level is enabled: `2026/01/20 12:51:00.000123 weather: message
 * key=value …`. Secrets that `redaction` knows are removed. Never throws, even if stderr cannot be written
 * to.
 */
function weatherLog(redaction: Redaction, logging: Pick<LogControl, 'shows'>): Log {
  // All lines from the same turn of the event loop are written at once. If the process exits before that,
  // they are written then.
  let waiting = '';
  const lines = logLines(2);
  const flush = (): void => {
    const text = waiting;
    waiting = '';
    if (text !== '') lines.write(redaction.clean(text));
  };
  process.once('exit', flush);
  const at =
    (level: Level) =>
    (fields: object, message: string): void => {
      if (!logging.shows(level)) return;
      const text = level === 'warn' || level === 'error' ? `${level}: ${message}` : message;
      if (waiting === '') setImmediate(flush);
      waiting += `${weatherLine(`${text}${describe(fields)}`)}\n`;
    };
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
  };
}

/** Puts the current time in front of a line. Line breaks in the text are removed. */
function weatherLine(text: string): string {
  const now = isoMicroseconds();
  const stamp = `${dayOf(now.slice(0, 10))} ${now.slice(11, -1)}`;
  const isOneLine = !text.includes('\n') && !text.includes('\r');
  return `${stamp} weather: ${isOneLine ? text : text.replaceAll(/\s*[\r\n]+\s*/g, '; ')}`;
}

let currentDay = { iso: '', slashed: '' };

function dayOf(iso: string): string {
  if (currentDay.iso !== iso) currentDay = { iso, slashed: iso.replaceAll('-', '/') };
  return currentDay.slashed;
}

function describe(fields: object): string {
  let text = '';
  // Iterate over the keys. Creating pairs with Object.entries would take most of the time that a line takes.
  for (const key of Object.keys(fields) as (keyof typeof fields)[]) {
    const value: unknown = fields[key];
    if (value !== null && value !== undefined) text += ` ${String(key)}=${valueText(value)}`;
  }
  return text;
}

function valueText(value: unknown): string {
  if (typeof value === 'number') return String(value);
  const text =
    value instanceof Error ? causeText(value) : typeof value === 'string' ? value : JSON.stringify(value);
  return isPlain(text) ? text : JSON.stringify(text);
}

/**
 * Reports whether text can be logged without quotes, because it has no spaces, quotation marks or equals
 * signs.
 */
function isPlain(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code <= 0x20 || code === 0x22 || code === 0x3d) return false;
    if (code > 0x7e) return !/[\s"=]/.test(text);
  }
  return true;
}

/**
 * Includes the cause. The message itself does not contain the file or the statement, because clients can see
 * it.
 */
function causeText(error: Error): string {
  return error.cause instanceof Error ? `${error.message}: ${causeText(error.cause)}` : error.message;
}
