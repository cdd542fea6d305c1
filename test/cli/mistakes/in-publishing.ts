import { chmodSync, mkdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { type Mistake, type Servers, sshKey } from './mistake.ts';

const site = { 'site/index.html': '<p>home</p>\n' };
const forms = 's3://bucket/prefix?endpoint=https://s3.example.org';
const key = {
  AWS_ACCESS_KEY_ID: 'AKIAEXAMPLE',
  AWS_SECRET_ACCESS_KEY: 'a-secret-access-key',
  AWS_REGION: 'eu-1',
};

/** No host name can be resolved, as on a machine without a network. */
const noNetwork = {
  files: {
    'offline.mjs': `import dns from 'node:dns';
dns.lookup = (host, options, done = options) =>
  done(Object.assign(new Error('getaddrinfo EAI_AGAIN ' + host), { code: 'EAI_AGAIN', hostname: host }));
`,
  },
  env: { NODE_OPTIONS: '--import=./offline.mjs' },
};

/** A destination with releases, and one without. */
const releases = `pipelines:
  - id: site
    source: {backend: local, path: ./site, manifest: auto}
    destinations:
      - {id: web, backend: local, path: ./web, mapping: fixed, layout: releases}
      - {id: flat, backend: local, path: ./flat, mapping: fixed}
`;

/** `waybill publish` and `waybill push` without a configuration. Nothing is ever written. */
export function inPublishing({ closed, pages }: Servers): Mistake[] {
  const publish = (name: string, args: string[], place: string, remedy: string): Mistake => ({
    ...{ name: `publish: ${name}`, args: ['publish', ...args], files: site },
    ...{ place, remedy, writesNothing: true },
  });
  const push = (name: string, args: string[], place: string, remedy: string): Mistake => ({
    ...publish(name, [], place, remedy),
    ...{ name: `push: ${name}`, args: ['push', ...args], env: { WAYBILL_TOKEN: 'a-token-of-these-tests' } },
  });
  const to = (port: number): string[] => ['--to', `http://127.0.0.1:${port}`, '-p', 'maps'];
  const release = (name: string, args: string[], place: string, remedy: string): Mistake => ({
    ...publish(name, [], place, remedy),
    ...{
      name: `releases: ${name}`,
      args: ['releases', ...args, '-c', 'c.yml', '-p', 'site'],
      config: releases,
    },
  });
  const offline = (mistake: Mistake): Mistake => ({
    ...mistake,
    files: { ...mistake.files, ...noNetwork.files },
    env: { ...mistake.env, ...noNetwork.env },
  });
  const all: Mistake[] = [
    publish('no destination', ['site'], '<destination>', 'publish --help'),
    publish('an FTP server', ['site', 'ftp://web1/srv/www'], 'ftp://web1/srv/www', forms),
    publish(
      'an HTTP address',
      ['site', 'https://www.example.org/'],
      'https://www.example.org/',
      'waybill push',
    ),
    publish(
      'an scp address',
      ['site', 'deploy@web1:/srv/www'],
      'deploy@web1:/srv/www',
      'sftp://deploy@web1/srv/www',
    ),
    publish('an rsync daemon', ['site', 'web1::www'], 'web1::www', 'sftp://web1/'),
    publish('an empty destination', ['site', ''], '<destination>', 'comes from a variable'),
    publish('SFTP without a path', ['site', 'sftp://web1'], 'sftp://web1', 'sftp://web1/srv/www'),
    publish(
      'SFTP with one slash',
      ['site', 'sftp:/web1/srv/www'],
      'sftp:/web1/srv/www',
      'sftp://web1/srv/www',
    ),
    publish('S3 without a bucket', ['site', 's3:///www'], 's3:///www', forms),
    publish('no region for S3', ['site', 's3://bucket'], 's3://bucket/', '?region=NAME'),
    publish(
      'an unknown S3 parameter',
      ['site', 's3://b?ednpoint=x'],
      'ednpoint',
      'endpoint, region, path_style',
    ),
    publish('a password for SFTP', ['site', 'sftp://deploy:hunter2@web1/srv/www'], 'password', '--ssh-key'),
    publish(
      'a password for S3',
      ['site', 's3://AKIA:hunter2@bucket/www'],
      'password',
      'AWS_SECRET_ACCESS_KEY',
    ),
    publish(
      'an S3 endpoint that is not a URL',
      ['site', 's3://b?endpoint=s3.example.org'],
      'endpoint',
      'https://',
    ),
    publish('no such directory', ['sit', 'www'], '"sit"', 'waybill publish ./site /srv/www'),
    publish('a file', ['site/index.html', 'www'], '"site/index.html"', 'name the directory'),
    publish('an archive', ['site.tgz', 'www'], '"site.tgz"', 'unpack the archive'),
    {
      ...publish('an empty directory', ['empty', 'www'], 'empty', 'add files'),
      prepare: (place) => mkdirSync(path.join(place, 'empty')),
    },
    publish('everything excluded', ['site', 'www', '--exclude', '*'], 'site', '.waybillignore'),
    {
      ...publish('secrets', ['site', 'www'], '.env', '--exclude'),
      files: { ...site, 'site/.env': 'TOKEN=x\n' },
    },
    {
      ...publish('a symbolic link', ['site', 'www'], 'passwd', '--links skip'),
      prepare: (place) => symlinkSync('/etc/passwd', path.join(place, 'site/passwd')),
    },
    {
      ...publish('a manifest with errors', ['site', 'www'], 'manifest.json:1:13', 'docs/manifest.md'),
      files: { ...site, 'site/manifest.json': '{"created": "yesterday", "files": []}' },
    },
    publish('the directory itself', ['site', './site'], './site', 'outside of that directory'),
    publish('a destination inside', ['site', 'site/www'], 'site/www', 'outside of that directory'),
    publish('a destination around', ['site', '.'], '"."', 'that does not contain'),
    publish('a destination twice', ['site', 'www', './www/'], './www/', 'once'),
    publish('two nested destinations', ['site', 'www', 'www/docs'], 'www/docs', 'separate directories'),
    {
      ...publish('foreign content', ['site', 'www'], 'the destination root', '--force'),
      files: { ...site, 'www/theirs.txt': 'theirs' },
    },
    publish('a file as destination', ['site', 'site.tgz'], 'site.tgz', 'correct the path'),
    publish('a file above the destination', ['site', 'site.tgz/www'], 'site.tgz', 'correct the path'),
    publish('--force without a confirmation', ['site', 'www', '--force'], '--force', '--yes'),
    publish('a channel without releases', ['site', 'www', '--channel', 'a'], '--channel', '--releases'),
    publish('a URL that is not a web site', ['site', 'www', '--url', 'www.example.org'], '--url', 'https://'),
    publish('a pipeline id with a blank', ['site', 'www', '-p', 'My site'], '--pipeline', 'publish --help'),
    publish('no SSH key', ['site', `sftp://deploy@127.0.0.1:${closed}/srv/www`], ':CLOSED', '--ssh-key'),
    {
      ...publish(
        'no S3 server',
        ['site', `s3://maps?endpoint=http://127.0.0.1:${closed}`],
        ':CLOSED',
        'endpoint',
      ),
      env: key,
    },
    {
      ...publish(
        'no keys for S3',
        ['site', `s3://maps?endpoint=http://127.0.0.1:${pages}`],
        'maps',
        'AWS_ACCESS_KEY_ID',
      ),
      env: { AWS_EC2_METADATA_DISABLED: 'true', AWS_REGION: 'eu-1' },
    },
    {
      ...publish(
        'no such bucket',
        ['site', `s3://gone?endpoint=http://127.0.0.1:${pages}`],
        '"gone"',
        'create it',
      ),
      env: key,
    },
    {
      ...publish(
        'no such SSH key',
        ['site', 'sftp://web1/srv/www', '--ssh-key', './id'],
        '/id',
        'correct --ssh-key',
      ),
    },
    offline({
      ...publish(
        'SFTP without a network',
        ['site', 'sftp://web1.example.org/srv/www', '--ssh-key', './id'],
        'web1.example.org',
        'network',
      ),
      files: { ...site, id: sshKey },
      prepare: (place) => chmodSync(path.join(place, 'id'), 0o600),
    }),
    offline({
      ...publish(
        'S3 without a network',
        ['site', 's3://maps?endpoint=https://s3.example.org&path_style=true'],
        's3.example.org',
        'network',
      ),
      env: key,
    }),
    publish('an unknown choice', ['site', 'www', '--links', 'yes'], '--links', 'refuse, follow, skip'),
    publish('a rate in words', ['site', 'www', '--max-rate', 'fast'], '"fast"', '2MiB/s'),
    publish('an option of rsync', ['site', 'www', '--delete'], '--delete', 'leave it out'),
    offline(
      push(
        'no network',
        ['site', '--to', 'https://publish.example.org', '-p', 'maps'],
        'publish.example.org',
        'network',
      ),
    ),
    { ...push('no token', ['site', ...to(pages)], 'token', 'WAYBILL_TOKEN'), env: {} },
    push(
      'a password in the URL',
      ['site', '--to', 'http://ci:hunter2@127.0.0.1/', '-p', 'maps'],
      'password',
      'WAYBILL_TOKEN',
    ),
    push('an FTP server', ['site', '--to', 'ftp://publish.example.org', '-p', 'maps'], 'ftp://', 'https://'),
    // The lease creates the directory of the destination.
    {
      ...release('rollback before a release', ['rollback', '-d', 'web'], 'no releases', 'publish first'),
      writesNothing: false,
    },
    release('rollback without releases', ['rollback', '-d', 'flat'], '"flat"', 'layout: releases'),
    release('promote an unknown release', ['promote', 'r1', '-d', 'web'], '"r1"', 'publish first'),
    push('a message of two lines', ['site', ...to(pages), '--message', 'a\nb'], '--message', 'one line'),
    push('no such directory', ['sit', ...to(pages)], '"sit"', 'directory'),
    push(
      'HTTPS to a plain port',
      ['site', '--to', `https://127.0.0.1:${pages}`, '-p', 'maps'],
      ':PAGES',
      'http://',
    ),
  ];
  return all.map((mistake) => ({ ...mistake, files: { ...mistake.files, 'site.tgz': 'not a directory' } }));
}
