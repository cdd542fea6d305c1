import { isProblem, problemError } from '../../client/failures.ts';
import type { Config, ServerConfig } from '../../core/config/config.ts';
import { loadConfig } from '../../core/config/load-config.ts';
import { requireSafePaths } from '../../core/config/unsafe-paths.ts';
import { systemClock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { loadSecrets, type Secrets } from '../../core/lib/secrets.ts';
import { describeNetworkError } from '../../core/lib/system-errors.ts';
import { homeDirectory } from '../process/home-directory.ts';

/** A connection to a daemon with the admin token. */
export interface Operator {
  /** The local configuration file. The daemon may be using a different one. */
  config: Config;
  /** The URL of the daemon. Ends with `/`. */
  url: string;
  /**
   * Sends a request without a body. If the daemon returns an error, throws it with its code and findings.
   * Throws `daemon_unreachable` if there is no response in time, or if `isAnswer` returns false for it.
   *
   * @param route The path, relative to `url`.
   */
  ask: <T>(
    request: { method: 'GET' | 'POST'; route: string; timeoutMs: number },
    isAnswer: (body: unknown) => body is T,
  ) => Promise<T>;
}

/**
 * Connects to the daemon in the configuration file, or to the one at `options.url`. Throws `config_invalid`,
 * `unsafe_permissions`, `secrets_invalid`, or `usage` if there is no admin token in the file.
 *
 * @param command The command that the user ran, for messages.
 * @param without What to do if there is no token, for the error.
 */
export async function openOperator(
  options: { config: string; url?: string },
  { command, without }: { command: string; without?: string },
): Promise<Operator> {
  const loaded = await loadConfig(options.config, { home: homeDirectory() });
  const { config } = loaded;
  requireSafePaths(loaded, { pipelineIds: [], sudoUser: process.env['SUDO_UID'] });
  const secrets = await loadSecrets({ directory: config.secrets.directory, env: process.env });
  const token = adminToken(config.server, secrets, { command, without });
  const url = options.url === undefined ? urlOf(config.server.http) : givenUrl(options.url);
  return { config, url, ask: (request, isAnswer) => ask({ ...request, url, token }, isAnswer) };
}

function adminToken(
  { adminTokenEnv }: ServerConfig,
  secrets: Secrets,
  { command, without }: { command: string; without: string | undefined },
): string {
  const or = without === undefined ? '' : `, or ${without}`;
  if (adminTokenEnv === null)
    throw new WaybillError('usage', `server.admin_token_env is not set, and ${command} needs its token`, {
      hint: `set it and restart the daemon${or}`,
    });
  const token = secrets.require(adminTokenEnv, command);
  if (!/^sha256:/i.test(token)) return token;
  throw new WaybillError(
    'secrets_invalid',
    `${adminTokenEnv} holds the SHA-256 of the token, not the token`,
    { hint: `set ${adminTokenEnv} to the token itself for this command${or}` },
  );
}

/** Returns the URL of a daemon on this machine. Ends with `/`. */
export function urlOf({
  host,
  port,
  basePath,
}: Pick<ServerConfig['http'], 'host' | 'port' | 'basePath'>): string {
  if (port === 0)
    throw new WaybillError('usage', 'server.http.listen selects any free port, so the port is unknown here', {
      hint: 'give --url, which the daemon logs as it starts',
    });
  const reached = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `http://${reached.includes(':') ? `[${reached}]` : reached}:${port}${basePath}`;
}

function givenUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol) || url.search !== '' || url.hash !== '')
    throw new WaybillError('usage', `--url ${text}: this is not the URL of a daemon`, {
      hint: 'give http:// or https://, a host and the base path: http://127.0.0.1:8080/',
    });
  return url.href.endsWith('/') ? url.href : `${url.href}/`;
}

interface Request {
  method: 'GET' | 'POST';
  route: string;
  timeoutMs: number;
  url: string;
  token: string;
}

async function ask<T>(
  { method, route, timeoutMs, url, token }: Request,
  isAnswer: (body: unknown) => body is T,
): Promise<T> {
  const tooLate = new AbortController();
  const timer = systemClock.timeout(timeoutMs, () => tooLate.abort());
  try {
    const response = await fetch(url + route, {
      method,
      headers: { authorization: `Bearer ${token}`, accept: 'application/json' },
      redirect: 'error',
      signal: tooLate.signal,
    });
    const body = parsed(await response.text());
    if (response.status === 200 && isAnswer(body)) return body;
    if (isProblem(body)) throw problemError(body);
    throw new TypeError(`it answered ${response.status}, which is not an answer of a daemon`);
  } catch (cause) {
    if (cause instanceof WaybillError) throw cause;
    const why = tooLate.signal.aborted ? `no answer within ${timeoutMs / 1000} s` : causeText(cause);
    throw new WaybillError('daemon_unreachable', `no daemon answers at ${url}: ${why}`, {
      cause,
      hint: 'check that the daemon runs; if it listens elsewhere, name its address with --url',
    });
  } finally {
    timer.cancel();
  }
}

/** Parses JSON. Returns undefined if it is invalid. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function causeText(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  // The message is just `fetch failed`; the actual reason is in the cause.
  return describeNetworkError(cause.cause instanceof Error ? cause.cause : cause);
}
