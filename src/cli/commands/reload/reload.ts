import { homedir } from 'node:os';
import { systemClock } from '../../../core/clock.ts';
import type { ServerConfig } from '../../../core/config/config.ts';
import { loadConfig } from '../../../core/config/load.ts';
import type { ReloadReport } from '../../../core/config/reload.ts';
import { WaybillError } from '../../../core/errors.ts';
import { loadSecrets, type Secrets } from '../../../core/secrets.ts';
import type { ConfiguredOptions } from '../../options.ts';
import { columns, makeOutput, type Output } from '../../output.ts';
import { askForReload } from './ask-for-reload.ts';

export interface ReloadOptions extends Pick<ConfiguredOptions, 'config' | 'format' | 'color'> {
  /** `--url` */
  url?: string;
}

/**
 * `waybill reload`: exit code 0 if the daemon has taken the file over, 2 if the file or a secret is not right
 * (here or there) or no daemon answers, 1 if it does not take the token.
 */
export async function reloadDaemon(options: ReloadOptions): Promise<number> {
  const output = makeOutput({ json: options.format === 'json', color: options.color });
  const { config } = await loadConfig(options.config, { home: homedir() });
  const secrets = await loadSecrets({ directory: config.secrets.directory, env: process.env });
  const token = adminToken(config.server, secrets);
  const url = options.url === undefined ? urlOf(config.server.http) : givenUrl(options.url);
  const report = await askForReload({ url, token, clock: systemClock });
  print(output, url, report);
  return 0;
}

function adminToken({ adminTokenEnv }: ServerConfig, secrets: Secrets): string {
  if (adminTokenEnv === null)
    throw new WaybillError(
      'usage',
      'server.admin_token_env is not set, and the API reloads for nobody else',
      {
        hint: 'set it and restart the daemon, or send SIGHUP to its process: systemctl reload waybill',
      },
    );
  const token = secrets.require(adminTokenEnv, 'waybill reload');
  if (!/^sha256:/i.test(token)) return token;
  throw new WaybillError(
    'secrets_invalid',
    `${adminTokenEnv} holds the SHA-256 of the token, not the token`,
    {
      hint: `set ${adminTokenEnv} to the token itself for this command, or send SIGHUP: systemctl reload waybill`,
    },
  );
}

/** Where this machine reaches a daemon with these settings; ends with `/`. */
export function urlOf({
  host,
  port,
  basePath,
}: Pick<ServerConfig['http'], 'host' | 'port' | 'basePath'>): string {
  if (port === 0)
    throw new WaybillError('usage', 'server.http.listen takes any free port, so it is not known here', {
      hint: 'give --url, which the daemon logs as it starts, or send SIGHUP to its process',
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

function print(output: Output, url: string, { restartNeeded, warnings, ...changes }: ReloadReport): void {
  if (output.isJson) {
    output.json('reload', { url, ...changes, restartNeeded, warnings });
    return;
  }
  for (const warning of warnings) output.warn(warning);
  const { green, yellow } = output.style;
  output.data(`${green('reloaded')}  ${url}`);
  const rows = Object.entries(changes).flatMap(([how, names]) => names.map((name) => [how, name]));
  for (const row of columns(rows, '  ')) output.data(row);
  if (restartNeeded.length > 0) output.data(`${yellow('restart needed')}  ${restartNeeded.join(', ')}`);
}
