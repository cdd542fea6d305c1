import { chmodSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { local, type Mistake, type Servers, to, token, uploads } from './mistake.ts';

const site = { 'site/index.html': '<p>home</p>\n' };

/**
 * Typing errors on the command line, and directories that cannot be published as they are. Nothing is
 * written.
 */
export function inTyping({ closed, pages }: Servers): Mistake[] {
  const typed = (name: string, args: string[], place: string, remedy: string): Mistake => ({
    ...{ name: `typing: ${name}`, args, config: to(local), files: site, env: { WAYBILL_TOKEN: token } },
    ...{ place, remedy, writesNothing: true },
  });
  const remote = ['--to', `http://127.0.0.1:${closed}`];
  const redis = (url: string): Partial<Mistake> => ({
    config: uploads('  queue: {driver: bullmq, redis_url_env: REDIS}\n'),
    env: { TOKEN: token, REDIS: url },
    textOnly: true,
  });
  return [
    typed('a configuration without its option', ['run', 'c.yml'], '--config <file>', 'run --config c.yml'),
    typed('an option before the command', ['-c', 'c.yml', 'run'], 'option -c', 'waybill run -c c.yml'),
    {
      ...typed('an option without its value', ['run', '-c'], '--config <file>', 'run --help'),
      textOnly: true,
    },
    typed('an extra argument', ['run', '-c', 'c.yml', 'maps'], '"maps"', '--pipeline maps'),
    typed('a command in the singular', ['release', 'list'], '"release"', 'did you mean releases?'),
    typed('a subcommand alone', ['rollback'], '"rollback"', 'did you mean releases rollback?'),
    typed('a command of another program', ['deploy', 'site', 'www'], '"deploy"', 'did you mean publish?'),
    typed('a mistyped subcommand', ['runs', 'lst'], '"lst"', 'did you mean list?'),
    typed('an output format', ['run', '-c', 'c.yml', '--format', 'yaml'], '"yaml"', 'one of text, json'),
    typed('a mistyped situation', ['init', 'upload'], '"upload"', 'did you mean uploads?'),
    typed('a number in words', ['runs', 'list', ...remote, '--limit', 'ten'], '"ten"', 'from 1 to 999999'),
    typed('a run without its id', ['runs', 'show', ...remote], '<run_id>', 'waybill runs show <run_id>'),
    typed(
      'a timeout without a unit',
      ['push', 'site', ...remote, '-p', 'maps', '--timeout', '10'],
      '"10"',
      '90s',
    ),
    typed('only the directory', ['push', 'site'], '--to <url>', 'push site --to <url>'),
    typed(
      'releases without a destination',
      ['releases', 'list'],
      '--config <file> or --to <url>',
      'WAYBILL_URL',
    ),
    typed(
      'a host without a scheme',
      ['push', 'site', '--to', `localhost:${pages}`, '-p', 'maps'],
      'localhost',
      'https://',
    ),
    typed(
      'a token file that is missing',
      ['push', 'site', ...remote, '-p', 'maps', '--token-file', 'token'],
      '"token"',
      'check the path after --token-file',
    ),
    typed(
      'a file that is not an archive',
      ['push', 'site/index.html', ...remote, '-p', 'maps'],
      'site/index.html',
      'tar',
    ),
    typed('a destination to verify', ['verify', 'site'], '--config <file>', 'verify --config FILE'),
    typed('a bundle that is missing', ['validate'], '<bundle>', 'waybill validate BUNDLE'),
    typed('a bundle that does not exist', ['validate', 'sit'], 'sit', 'path'),
    typed('a scene map that does not exist', ['scene-map', 'validate', 'map.json'], 'map.json', 'path'),
    typed('a plan that does not exist', ['run', '-c', 'c.yml', '--plan', 'p.json'], 'p.json', '--plan'),
    typed(
      'a directory that is not a destination',
      ['promote', 'elsewhere', 'www'],
      '"elsewhere"',
      'the first argument',
    ),
    typed('a URL of a file', ['publish', 'site', 'file:///srv/www'], 'file:///srv/www', '/srv/www'),
    typed('a bucket without slashes', ['publish', 'site', 's3:bucket'], 's3:bucket', 's3://bucket'),
    typed('a port in letters', ['publish', 'site', 'sftp://web1:ssh/srv'], 'sftp://web1:ssh/srv', 'sftp://'),
    {
      ...typed('a directory of another user', ['publish', 'site', 'www'], '/site', 'access'),
      ...{ unprivileged: true, prepare: (place) => chmodSync(path.join(place, 'site'), 0o700) },
    },
    {
      ...typed('a file of another user', ['publish', 'site', 'www'], '/site: "index.html"', 'access'),
      ...{ unprivileged: true, prepare: (place) => chmodSync(path.join(place, 'site/index.html'), 0o600) },
    },
    {
      ...typed('a name in Latin-1', ['publish', 'site', 'www'], 'not UTF-8', 'convmv -f latin1'),
      // It is compared by its text, not by its name.
      writesNothing: false,
      prepare: (place) =>
        writeFileSync(Buffer.concat([Buffer.from(`${place}/site/`), Buffer.from('café.html', 'latin1')]), ''),
    },
    {
      ...typed('a name from macOS', ['publish', 'site', 'www'], 'form C', 'convmv -f utf8 -t utf8 --nfc'),
      files: { ...site, [`site/${'café.html'.normalize('NFD')}`]: '' },
    },
    {
      ...typed('a manifest that is a list', ['publish', 'site', 'www'], 'manifest.json:1:1', 'object'),
      files: { ...site, 'site/manifest.json': '[]' },
    },
    {
      ...typed('a Redis URL of another kind', ['serve', '-c', 'c.yml'], 'REDIS', 'redis://'),
      ...redis('localhost'),
    },
  ];
}
