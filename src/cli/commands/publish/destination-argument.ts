import { createHash } from 'node:crypto';
import path from 'node:path';
import { WaybillError } from '../../../core/lib/errors.ts';

/** A destination given on the command line, converted to settings. */
export interface DestinationSettings {
  id: string;
  /** `backend`, and the settings of that backend. */
  settings: Readonly<Record<string, string | number | boolean | undefined>>;
}

interface DestinationDefaults {
  /** Relative paths are resolved against this absolute path. */
  workingDirectory: string;
  userName: string;
  sshKeyFile: string | undefined;
}

/**
 * Parses a destination, which is a path, `sftp://[user@]host[:port]/path`, or
 * `s3://bucket[/prefix][?endpoint=&region=&path_style=]`. The id is derived from the location, so that it is
 * the same when publishing there again. Throws a `usage` error with what to write instead.
 */
export function parseDestination(text: string, defaults: DestinationDefaults): DestinationSettings {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text)?.[1]?.toLowerCase();
  if (scheme === 'sftp') return sftp(text, defaults);
  if (scheme === 's3') return s3(text);
  if (scheme === 'file')
    throw invalidDestination(text, 'a directory has no "file://"', text.replace(/^file:\/\/[^/]*/i, ''));
  if (scheme === 'http' || scheme === 'https') throw webAddress(text, scheme);
  if (scheme !== undefined) throw invalidDestination(text, `"${scheme}:" is not supported`);
  if (text.trim() === '') throw invalidDestination(text, 'it is empty');
  if (/^~(\/|$)/.test(text))
    throw invalidDestination(
      text,
      'the shell did not replace "~" with your home directory',
      `the full path, or ./${text} for a directory named "~"`,
    );
  const remote = /^([^/\s]+@[^/:\s]+):(.*)$/.exec(text);
  if (remote !== null)
    throw invalidDestination(
      text,
      'it is an scp address',
      `sftp://${remote[1] ?? ''}/${remotePath(remote[2] ?? '')}`,
    );
  const slip = /^(sftp|s3):\/*(.*)$/i.exec(text);
  if (slip !== null)
    throw invalidDestination(
      text,
      'there must be two slashes after the colon',
      `${slip[1]?.toLowerCase() ?? ''}://${slip[2] ?? ''}`,
    );
  // In other programs, `web1:/srv/www` and `web1::module` are on another machine.
  const other = /^([^/:]*)(::?)(.*)$/.exec(text);
  if (other !== null) {
    const [, host = '', colons, directory = ''] = other;
    const isModule = colons === '::';
    const form = `sftp://${host}/${isModule ? 'path/on/the/server' : remotePath(directory)}`;
    const kind = isModule ? 'an rsync address' : 'the address of a host';
    throw invalidDestination(text, `it looks like ${kind}`, `${form}, or ./${text} for a directory`);
  }
  return withId('local', { path: path.resolve(defaults.workingDirectory, text) });
}

/** Converts the path of an scp address. A relative one begins at the login directory. */
function remotePath(directory: string): string {
  return directory.startsWith('/') ? directory.slice(1) : `~/${directory}`;
}

function sftp(text: string, { userName, sshKeyFile }: DestinationDefaults): DestinationSettings {
  const url = parseUrl(text);
  if (url.search !== '' || url.hash !== '') throw invalidDestination(text, 'SFTP takes no "?" and no "#"');
  const directory = decoded(text, url.pathname)
    .replace(/\/{2,}/g, '/')
    .replace(/^\/~\//, '')
    .replace(/(?<=.)\/+$/, '');
  if (directory === '' || directory === '/' || directory === '/~')
    throw invalidDestination(
      text,
      'the path of the directory on the server is missing',
      `${text.replace(/\/+$/, '')}/srv/www, with the path of your directory`,
    );
  return withId(
    'sftp',
    {
      host: decoded(text, url.hostname).replace(/^\[(.*)\]$/, '$1'),
      port: url.port === '' ? undefined : Number(url.port),
      user: url.username === '' ? userName : decoded(text, url.username),
      path: directory,
    },
    { ssh_key_file: sshKeyFile },
  );
}

const s3Parameters = ['endpoint', 'region', 'path_style'];
const s3Example = 's3://bucket/prefix?endpoint=https://s3.example.org';

function s3(text: string): DestinationSettings {
  const url = parseUrl(text);
  // Read the bucket from the text, because it can contain uppercase letters and the URL parser makes hosts
  // lowercase.
  const bucket = /^s3:\/\/([^/?#]*)/i.exec(text)?.[1] ?? '';
  if (url.username !== '')
    throw invalidDestination(text, 'S3 takes no user name; credentials come from the environment');
  if (url.hash !== '') throw invalidDestination(text, 'S3 takes no "#"; write %23');
  const names = [...url.searchParams.keys()];
  const unknown = names.find((name) => !s3Parameters.includes(name));
  if (unknown !== undefined)
    throw invalidDestination(
      text,
      `"${unknown}" is not a parameter; S3 takes ${s3Parameters.join(', ')}`,
      s3Example,
    );
  const repeated = names.find((name, index) => names.indexOf(name) < index);
  if (repeated !== undefined) throw invalidDestination(text, `it has "${repeated}" twice`);
  const pathStyle = url.searchParams.get('path_style');
  if (pathStyle !== null && pathStyle !== 'true' && pathStyle !== 'false')
    throw invalidDestination(text, 'path_style is true or false');
  const endpoint = url.searchParams.get('endpoint');
  const region = url.searchParams.get('region');
  const prefix = decoded(text, url.pathname).replace(/^\/+/, '');
  return withId(
    's3',
    { bucket, prefix: prefix === '' ? undefined : prefix, endpoint: endpoint ?? undefined },
    { region: region ?? undefined, path_style: pathStyle === null ? undefined : pathStyle === 'true' },
  );
}

function parseUrl(text: string): URL {
  if (!URL.canParse(text)) {
    const port = /^\w+:\/\/(?:[^/@]*@)?[^/:[\]]*:([^/]+)/.exec(text)?.[1];
    if (port === undefined) throw invalidDestination(text, 'it is not a URL');
    throw invalidDestination(text, `"${port}" is not a port number`, text.replace(`:${port}`, ':22'));
  }
  const url = new URL(text);
  if (url.password !== '')
    throw new WaybillError(
      'usage',
      `the destination "${withoutPassword(text)}" has a password in its URL, which other users can see`,
      { hint: credentials[url.protocol] ?? 'remove it' },
    );
  if (url.hostname === '')
    throw url.protocol === 's3:'
      ? invalidDestination(text, 'the bucket is missing', s3Example)
      : invalidDestination(text, 'the host is missing', 'sftp://deploy@web1/srv/www');
  return url;
}

/** What to use in place of a password in the URL. */
const credentials: Readonly<Record<string, string>> = {
  'sftp:': 'remove it, and log in with an SSH agent or --ssh-key',
  's3:': 'remove it, and set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY',
};

function decoded(text: string, part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw invalidDestination(text, 'it has a "%" that is not an escape; write %25');
  }
}

/** Returns the settings with an id that depends on `place` but not on `access`. */
function withId(
  backend: string,
  place: DestinationSettings['settings'],
  access: DestinationSettings['settings'] = {},
): DestinationSettings {
  const digest = createHash('sha256').update(JSON.stringify(place)).digest('hex').slice(0, 8);
  return { id: `${backend}-${digest}`, settings: { backend, ...place, ...access } };
}

/** `form` is what to write instead. By default, the hint lists all forms. */
function invalidDestination(
  text: string,
  reason: string,
  form = `a path like /srv/www, sftp://deploy@web1/srv/www, or ${s3Example}`,
): WaybillError {
  const message = `the destination "${withoutPassword(text)}" is not understood: ${reason}`;
  return new WaybillError('usage', message, { hint: `write ${form}` });
}

function webAddress(text: string, scheme: string): WaybillError {
  const message = `the destination "${withoutPassword(text)}" is not understood: "${scheme}:" is not supported`;
  return new WaybillError('usage', message, {
    hint: 'name the directory, SFTP server or bucket behind the web address; to send to a waybill daemon: waybill push DIRECTORY --to URL',
  });
}

/** Removes the password from a URL, for use in messages. */
function withoutPassword(text: string): string {
  return text.replace(/(?<=:\/\/)[^/@]*:[^/@]*@/, '…@');
}

export interface PublishSettings {
  pipelineId: string;
  /** An absolute path. */
  directory: string;
  destinations: readonly DestinationSettings[];
  releases: boolean;
  channel?: string | undefined;
  index: 'auto' | 'always' | 'never';
  include: readonly string[];
  exclude: readonly string[];
  links: 'refuse' | 'follow' | 'skip';
  maxRate?: string | undefined;
  url?: string | undefined;
  channelUrl?: string | undefined;
}

const indexSettings = { auto: 'auto', always: true, never: false } as const;

/**
 * Creates a configuration in YAML that does the same as `waybill publish` with these settings. Values are
 * written as JSON, which is also valid YAML.
 */
export function configurationText(settings: PublishSettings): string {
  const { pipelineId, directory, destinations, include, exclude, links } = settings;
  const lines = [
    '# Written by waybill publish --save. Run it with: waybill run --config THIS_FILE',
    'pipelines:',
    `  - id: ${JSON.stringify(pipelineId)}`,
    '    source:',
    ...entries('      ', {
      backend: 'local',
      path: directory,
      id: pipelineId,
      manifest: 'auto',
      include: include.length === 0 ? undefined : include,
      exclude: exclude.length === 0 ? undefined : exclude,
      links: links === 'refuse' ? undefined : links,
      // Links may point anywhere, since the command cannot read more than its user can.
      links_to: links === 'follow' ? ['/'] : undefined,
    }),
    '    destinations:',
    ...destinations.flatMap((destination) => [
      `      - id: ${JSON.stringify(destination.id)}`,
      ...entries('        ', { ...destination.settings, ...common(settings) }),
    ]),
  ];
  return `${lines.join('\n')}\n`;
}

/** Creates a configuration in YAML for promoting content from one destination to another. */
export function promotionText(
  from: DestinationSettings,
  to: DestinationSettings,
  settings: DestinationChoices & Pick<PublishSettings, 'pipelineId'>,
): string {
  const lines = [
    'pipelines:',
    `  - id: ${JSON.stringify(settings.pipelineId)}`,
    '    source:',
    ...entries('      ', { ...from.settings, manifest: 'auto' }),
    '    destinations:',
    `      - id: ${JSON.stringify(to.id)}`,
    ...entries('        ', { ...to.settings, ...common(settings), mapping: 'preserve_relative' }),
  ];
  return `${lines.join('\n')}\n`;
}

type DestinationChoices = Pick<
  PublishSettings,
  'releases' | 'channel' | 'index' | 'maxRate' | 'url' | 'channelUrl'
>;

function common({ releases, channel, index, maxRate, url, channelUrl }: DestinationChoices): object {
  return {
    mapping: 'fixed',
    workflow: 'replacement',
    outputs: { index: indexSettings[index] },
    layout: releases ? 'releases' : undefined,
    releases:
      channel === undefined ? undefined : { channels: { [channel]: { public_base_url: channelUrl } } },
    max_rate: maxRate,
    public_base_url: url,
  };
}

/** Leaves out undefined values. */
function entries(indent: string, values: object): string[] {
  return Object.entries(values).flatMap(([key, value]) =>
    value === undefined ? [] : [`${indent}${key}: ${JSON.stringify(value)}`],
  );
}
