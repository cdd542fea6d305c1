import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import t, { type Test } from 'tap';
import { inParallel } from '../../../../src/core/lib/parallel.ts';
import { ensureInstalled } from '../../../services/debian.ts';
import { startRadosgw } from '../../../services/radosgw.ts';
import { startSshd } from '../../../services/sshd.ts';
import { document, type Ended, fingerprint, program } from '../../process.ts';

/** `waybill publish`: a directory and destinations on the command line, without a configuration. */

interface Place {
  cwd: string;
  waybill: (args: readonly string[], env?: Record<string, string>) => Promise<Ended>;
}

function layOut(t: Test): Place {
  const cwd = t.testdir({ home: {}, site: { 'index.html': '<p>home</p>', css: { 'style.css': 'p {}' } } });
  const longAgo = new Date('2026-11-20T01:02:03Z');
  for (const name of ['index.html', 'css/style.css'])
    utimesSync(path.join(cwd, 'site', name), longAgo, longAgo);
  const waybill: Place['waybill'] = async (args, env = {}) => {
    const child = spawn(process.execPath, [program, ...args], {
      ...{ cwd, stdio: ['ignore', 'pipe', 'pipe'] },
      env: { PATH: process.env['PATH'] ?? '', HOME: path.join(cwd, 'home'), ...env },
    });
    const ended = once(child, 'exit') as Promise<[number | null]>;
    const [stdout, stderr, [status]] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
    return { status, stdout, stderr };
  };
  return { cwd, waybill };
}

const read = (...parts: string[]): string => readFileSync(path.join(...parts), 'utf8');

t.test('a directory is published to a path, and a second time nothing changes', async (t) => {
  const { cwd, waybill } = layOut(t);
  const dry = await waybill(['publish', 'site', 'www', '--dry-run']);
  t.match(dry, { status: 0, stdout: /publish_new[^]*dry run/ });
  t.notOk(existsSync(path.join(cwd, 'www')));
  t.match(await waybill(['publish', 'site', 'www']), { status: 0, stderr: '', stdout: /publish_new=1/ });
  t.equal(read(cwd, 'www/index.html'), '<p>home</p>');
  t.same(readdirSync(path.join(cwd, 'www')).sort(), ['.publisher.json', 'css', 'index.html']);
  const before = fingerprint(path.join(cwd, 'www'));
  const again = await waybill(['publish', 'site', 'www', '--format', 'json']);
  const { counters } = document(t, again) as { counters: Record<string, number> };
  t.equal(counters['skip_same'], 1);
  t.same(fingerprint(path.join(cwd, 'www')), before);
  writeFileSync(path.join(cwd, 'site/index.html'), '<p>edited</p>');
  t.match(await waybill(['publish', './site', './www']), { status: 0, stdout: /replace_catalog=1/ });
  t.equal(read(cwd, 'www/index.html'), '<p>edited</p>');
  t.equal(
    fingerprint(path.join(cwd, 'www'))['css/style.css'],
    before['css/style.css'],
    'the other file stays',
  );
});

t.test('prints the public URL of the destination or channel', async (t) => {
  const { waybill } = layOut(t);
  const to = ['publish', 'site', 'www', '--releases', '--url', 'https://www.example.org/docs'];
  const preview = ['--channel', 'pr-12', '--channel-url', 'https://pr-12.example.org'];
  const first = await waybill(to);
  t.match(first, {
    status: 0,
    stderr: '',
    stdout: /publish_new .*\n {6}https:\/\/www\.example\.org\/docs\/\n/,
  });
  t.match((await waybill(to)).stdout, /skip_same\n {6}https:\/\/www\.example\.org\/docs\/\n/);
  t.match((await waybill([...to, ...preview])).stdout, /\n {6}https:\/\/pr-12\.example\.org\/\n/);
  const json = document(t, await waybill([...to, ...preview, '--format', 'json']));
  t.match(json, {
    pipelines: [{ destinations: [{ actions: [{ channel: 'pr-12', url: 'https://pr-12.example.org/' }] }] }],
  });
  t.match(await waybill([...to, '--channel', 'pr-12']), { status: 0, stdout: /channel "pr-12"|skip_same/ });
  t.notMatch(
    (await waybill([...to, '--channel', 'pr-12'])).stdout,
    /https:/,
    'a channel does not have the URL of the site',
  );
  t.match(await waybill([...to, ...preview.slice(2)]), {
    status: 2,
    stderr: /--channel-url needs a channel/,
  });
});

t.test('publishes to several destinations, with an index, and with releases', async (t) => {
  const { cwd, waybill } = layOut(t);
  const ended = await waybill(['publish', 'site/css', 'a', 'b', '--releases', '--index', 'auto']);
  t.match(ended, { status: 0, stdout: /publish_new=2/ });
  for (const name of ['a', 'b']) t.match(read(cwd, name, 'current/index.html'), 'style.css');
  t.match(readlinkSync(path.join(cwd, 'a/current')), /^releases\//);
  const bare = await waybill(['publish', 'site/css', 'c', '--index', 'never']);
  t.equal(bare.status, 0);
  t.notOk(existsSync(path.join(cwd, 'c/index.html')));
});

t.test('a channel leaves the current release unchanged', async (t) => {
  const { cwd, waybill } = layOut(t);
  t.equal((await waybill(['publish', 'site', 'www', '--releases'])).status, 0);
  writeFileSync(path.join(cwd, 'site/index.html'), 'preview');
  const ended = await waybill(['publish', 'site', 'www', '--releases', '--channel', 'pr-12']);
  t.equal(ended.status, 0, ended.stderr + ended.stdout);
  t.equal(read(cwd, 'www/current/index.html'), '<p>home</p>');
  t.equal(read(cwd, 'www/pr-12/index.html'), 'preview');
});

t.test('releases are not replaced by files in place if --releases is omitted', async (t) => {
  const { cwd, waybill } = layOut(t);
  t.equal((await waybill(['publish', 'site', 'www', '--releases'])).status, 0);
  const before = readdirSync(path.join(cwd, 'www')).sort();
  writeFileSync(path.join(cwd, 'site/index.html'), 'changed');
  for (const more of [[], ['--dry-run'], ['--force', '--yes']])
    t.match(await waybill(['publish', 'site', 'www', ...more]), {
      status: 1,
      stdout: /the destination root has releases[^]*add --releases/,
    });
  t.same(readdirSync(path.join(cwd, 'www')).sort(), before);
  t.equal(read(cwd, 'www/current/index.html'), '<p>home</p>');
});

t.test('names the directory that cannot be published, not the pipeline', async (t) => {
  const { cwd, waybill } = layOut(t);
  mkdirSync(path.join(cwd, 'My Site'));
  const { status, stdout } = await waybill(['publish', 'My Site', 'www', '--pipeline', 'web']);
  t.equal(status, 1);
  t.match(stdout, 'the directory "My Site" cannot be published: it has no files');
});

t.test('files in place are not updated if the destination has changed to releases', async (t) => {
  const { cwd, waybill } = layOut(t);
  t.equal((await waybill(['publish', 'site', 'www'])).status, 0);
  const changed = await waybill(['publish', 'site', 'www', '--releases', '--dry-run']);
  t.match(changed.stderr, 'waybill unpublish --layout in_place .');
  t.match(changed.stderr, 'repeat your command with --save waybill.yml, and add --config waybill.yml to');
  const saved = await waybill(['publish', 'site', 'www', '--releases', '--save', 'a b.yml']);
  t.match(saved, { status: 0, stderr: /note {2}add --config 'a b\.yml' to waybill unpublish\n/ });
  for (const text of ['<p>home</p>', 'changed']) {
    writeFileSync(path.join(cwd, 'site/index.html'), text);
    t.match(await waybill(['publish', 'site', 'www']), {
      status: 1,
      stdout: /the destination root has releases[^]*add --releases[^]*unpublish --layout releases/,
    });
  }
  t.equal(read(cwd, 'www/index.html'), '<p>home</p>');
  t.match(await waybill(['publish', 'site', 'www', '--releases']), { status: 0 });
  t.equal(read(cwd, 'www/current/index.html'), 'changed');
});

t.test('a destination that was moved can be published to with a configuration', async (t) => {
  const { cwd, waybill } = layOut(t);
  t.equal((await waybill(['publish', 'site', 'www'])).status, 0);
  renameSync(path.join(cwd, 'www'), path.join(cwd, 'moved'));
  const refused = await waybill(['publish', 'site', 'moved', '--save', 'moved.yml']);
  t.match(refused, {
    status: 1,
    stdout: /"css\/style\.css" belongs to site\/local-\w+; [^]*if you published them by another path.*--save/,
  });
  const formerId = /belongs to site\/(local-\w+)/.exec(refused.stdout)?.[1] ?? '';
  const saved = readFileSync(path.join(cwd, 'moved.yml'), 'utf8');
  writeFileSync(path.join(cwd, 'moved.yml'), saved.replace(/local-\w{8}/, formerId));
  t.match(await waybill(['run', '-c', 'moved.yml']), { status: 0, stdout: /skip_same=1/ });
});

t.test('a directory that cannot be read is a usage error', async (t) => {
  const { cwd, waybill } = layOut(t);
  symlinkSync('loop', path.join(cwd, 'loop'));
  for (const [directory, reason] of [
    ['loop', 'cannot be read: there are too many symbolic links'],
    ['x'.repeat(300), 'cannot be read: the name is too long'],
    ['site/index.html/css', 'does not exist'],
  ] as const) {
    const { status, stderr } = await waybill(['publish', directory, 'www']);
    t.match({ status, stderr }, { status: 2, stderr: new RegExp(`^error  "[^"]+" ${reason}\nnext   .*\n$`) });
  }
});

t.test('a deleted current directory is a usage error', async (t) => {
  const { cwd } = layOut(t);
  const line = `mkdir gone; cd gone; rmdir ../gone; exec "${process.execPath}" "${program}" publish "${cwd}/site" "${cwd}/www"`;
  const { status, stderr } = spawnSync('bash', ['-c', line], { cwd, encoding: 'utf8' });
  t.equal(status, 2);
  t.match(stderr, /^error  the current directory no longer exists\nnext   change to another directory.*\n$/);
});

t.test('--save writes the equivalent configuration, and overwrites nothing', async (t) => {
  const { cwd, waybill } = layOut(t);
  const args = ['publish', 'site', 'www', '--exclude', 'css', '--save', 'site.yml'];
  t.match(await waybill(args), { status: 0, stderr: /^note +wrote site\.yml\n$/ });
  t.same(readdirSync(path.join(cwd, 'www')).sort(), ['.publisher.json', 'index.html']);
  t.match(await waybill(['run', '-c', 'site.yml']), { status: 0, stdout: /skip_same=1/ });
  t.match(await waybill(args), { status: 0, stdout: /skip_same=1/, stderr: '' });
  const other = await waybill([...args, '--exclude', 'more']);
  t.match(other, { status: 2, stderr: /exists already, with other content[^]*next/ });
});

t.test('--links follow publishes the targets of links, and --links skip omits the links', async (t) => {
  const { cwd, waybill } = layOut(t);
  symlinkSync('index.html', path.join(cwd, 'site/home.html'));
  t.match(await waybill(['publish', 'site', 'www']), {
    status: 1,
    stdout: /home\.html is a symbolic link.*--links skip.*--links follow/,
  });
  t.match(await waybill(['publish', 'site', 'www', '--links', 'skip']), { status: 0 });
  t.notOk(existsSync(path.join(cwd, 'www/home.html')));
  mkdirSync(path.join(cwd, 'media'));
  writeFileSync(path.join(cwd, 'media/logo.svg'), '<svg/>');
  symlinkSync('../media', path.join(cwd, 'site/media'));
  const follow = ['publish', 'site', 'www', '--links', 'follow'];
  t.match(await waybill([...follow, '--save', 'followed.yml']), { status: 0 });
  t.equal(read(cwd, 'www/home.html'), '<p>home</p>');
  t.equal(read(cwd, 'www/media/logo.svg'), '<svg/>');
  t.match(await waybill(['run', '-c', 'followed.yml']), { status: 0, stdout: /skip_same=1/ });
});

t.test('keeps foreign content, unless --force is confirmed', async (t) => {
  const { cwd, waybill } = layOut(t);
  mkdirSync(path.join(cwd, 'www'));
  writeFileSync(path.join(cwd, 'www/precious'), 'x');
  t.match(await waybill(['publish', 'site', 'www']), { status: 1, stdout: /fail_unmanaged=1/ });
  t.match(await waybill(['publish', 'site', 'www', '--force']), { status: 2, stderr: /add --yes/ });
  t.ok(existsSync(path.join(cwd, 'www/precious')));
  t.match(await waybill(['publish', 'site', 'www', '--force', '--yes']), {
    status: 0,
    stdout: /force_replace=1/,
  });
  t.notOk(existsSync(path.join(cwd, 'www/precious')));
});

t.test('Ctrl-C, Ctrl-D and "n" at the question of --force publish nothing; "y" does', async (t) => {
  await ensureInstalled('script');
  const { cwd } = layOut(t);
  mkdirSync(path.join(cwd, 'www'));
  writeFileSync(path.join(cwd, 'www/precious'), 'x');
  /** Runs the command on a terminal and presses the keys once the question is there. */
  const answer = async (keys: string): Promise<{ status: number | null; shown: string }> => {
    const command = `"${process.execPath}" "${program}" publish site www --force`;
    const child = spawn('script', ['-qec', command, '/dev/null'], {
      ...{ cwd, stdio: ['pipe', 'pipe', 'inherit'] },
      env: { PATH: process.env['PATH'] ?? '', HOME: path.join(cwd, 'home'), TERM: 'xterm' },
    });
    const ended = once(child, 'exit') as Promise<[number | null]>;
    let shown = '';
    let isAsked = false;
    for await (const chunk of child.stdout.setEncoding('utf8')) {
      shown += chunk as string;
      if (!isAsked && shown.includes('[y/N]')) child.stdin.write(keys);
      isAsked = shown.includes('[y/N]');
    }
    child.stdin.end();
    const [status] = await ended;
    return { status, shown };
  };
  for (const keys of ['\x03', '\x04', 'n\r']) {
    const { status, shown } = await answer(keys);
    t.equal(status, 2, shown);
    t.match(shown, /needs a confirmation[^]*add --yes/);
    t.ok(existsSync(path.join(cwd, 'www/precious')));
  }
  t.match(await answer('y\r'), { status: 0, shown: /force_replace=1/ });
  t.notOk(existsSync(path.join(cwd, 'www/precious')));
});

t.test('mistakes are usage errors with a fix, and nothing is written', async (t) => {
  const { cwd, waybill } = layOut(t);
  writeFileSync(path.join(cwd, 'file'), '');
  symlinkSync('site', path.join(cwd, 'link'));
  const before = fingerprint(cwd);
  const threeForms = /next {3}write a path like .*, sftp:\/\/.*, or s3:\/\//;
  const mistakes = [
    [['nowhere', 'www'], /"nowhere" does not exist\nnext/],
    [['file', 'www'], /"file" is not a directory/],
    [['site', 'site/www'], /is inside the published directory/],
    [['site', '.'], /published directory .* is inside the destination/],
    [['site', 'link'], /"link" is the published directory itself/],
    [['site', 'www', './www'], /"www" and "\.\/www" are the same destination/],
    [['site', 'ftp://host/www'], threeForms],
    [['site', 'https://host/www'], /next {3}name the directory, .*waybill push/],
    [['site', ''], /the argument <destination> is empty\nnext/],
    [['site', 'deploy@web1:/srv/www'], /write sftp:\/\/deploy@web1\/srv\/www/],
    [['site', 'sftp://web1/'], /path of the directory on the server is missing/],
    [['site', 's3://bucket/x?key=1'], /"key" is not a parameter; S3 takes endpoint/],
    [['site', 's3://bucket/x?region=a&region=b'], /it has "region" twice/],
    [['site', 's3://bucket/x?path_style=yes'], /path_style is true or false/],
    [['site', 's3://bad_bucket%/x'], /^error {2}the destination's bucket: found the text "bad_bucket%"/],
    [['site', 'www', '--channel', 'x'], /--channel needs --releases/],
    [['site', 'www', '--save', 'site/www.yml'], /would be inside the published directory/],
    [['site', 'www', '--save', 'link/www.yml'], /would be inside the published directory/],
    [['site', 'www', '--pipeline', 'My Site'], /^error {2}--pipeline: found the text "My Site"/],
    [['site', 'www', '--url', 'nope'], /^error {2}--url: /],
  ] as const;
  await inParallel(mistakes, 3, async ([args, message]) => {
    const ended = await waybill(['publish', ...args]);
    t.match(ended, { status: 2, stdout: '', stderr: message }, args.join(' '));
    t.match(ended.stderr, /\nnext {3}/);
  });
  for (const destination of ['sftp://me:s3cret-word@host/www', 's3://key:s3cret-word@bucket/www']) {
    const ended = await waybill(['publish', 'site', destination]);
    t.match(ended, {
      status: 2,
      stderr: /has a password in its URL[^]*next {3}remove it, and (?:log in with an SSH agent|set AWS_)/,
    });
    t.notMatch(ended.stdout + ended.stderr, 's3cret-word');
  }
  t.same(fingerprint(cwd), before);
});

t.test(
  'an empty directory, secrets and an invalid manifest fail, and the error names the file',
  async (t) => {
    const { cwd, waybill } = layOut(t);
    mkdirSync(path.join(cwd, 'empty'));
    t.match(await waybill(['publish', 'empty', 'www']), { status: 1, stdout: /it has no files/ });
    writeFileSync(path.join(cwd, 'site/.env'), 'TOKEN=1');
    t.match(await waybill(['publish', 'site', 'www']), {
      status: 1,
      stdout: /\.env may hold secrets/,
    });
    t.match(await waybill(['publish', 'site', 'www', '--exclude', '.env']), { status: 0 });
    writeFileSync(path.join(cwd, 'site/manifest.json'), '{"files": 3}');
    t.match(await waybill(['publish', 'site', 'www']), { status: 1, stdout: /manifest\.json:1:\d+/ });
    t.equal(read(cwd, 'www/index.html'), '<p>home</p>');
  },
);

t.test('publishes a directory over SFTP with a key from the home directory', async (t) => {
  const server = await startSshd(t);
  const { cwd, waybill } = layOut(t);
  mkdirSync(path.join(cwd, 'home/.ssh'), { mode: 0o700 });
  writeFileSync(path.join(cwd, 'home/.ssh/id_ed25519'), readFileSync(server.clientKeyFile), { mode: 0o600 });
  const url = `sftp://${server.user}@${server.host}:${server.port}${server.root}/www`;
  t.match(await waybill(['publish', 'site', url]), { status: 0, stdout: /publish_new=1/ });
  t.equal(read(server.root, 'www/css/style.css'), 'p {}');
  t.match(await waybill(['publish', 'site', url]), { status: 0, stdout: /skip_same=1/ });
});

t.test('--max-rate limits a publication, is saved, and is rejected if it is not a rate', async (t) => {
  const { cwd, waybill } = layOut(t);
  writeFileSync(path.join(cwd, 'site/data.bin'), Buffer.alloc(768 << 10, 'data'));
  const began = performance.now();
  const args = ['publish', 'site', 'www', '--max-rate', '512KiB/s', '--save', 'saved.yml'];
  t.match(await waybill(args), { status: 0, stdout: /publish_new=1/ });
  t.ok(performance.now() - began >= 1_490, '768 KiB at 512 KiB/s take 1.5 s');
  t.match(read(cwd, 'saved.yml'), /^ {8}max_rate: "512KiB\/s"$/m);
  const inspected = await waybill(['inspect', '--config', 'saved.yml', '--pipeline', 'site']);
  t.match(inspected, { status: 0, stdout: /fixed, replacement, at most 512 KiB\/s/ });
  const wrong = { status: 2, stderr: /--max-rate.*2Mbit.*\b(is not|expected) a rate .* such as 2MiB\/s/s };
  t.match(await waybill(['publish', 'site', 'www', '--max-rate', '2Mbit']), wrong);
  t.match(await waybill(['run', '--config', 'saved.yml', '--max-rate', '2Mbit']), wrong);
});

t.test('publishes a directory to a bucket with the credentials of the environment', async (t) => {
  const server = await startRadosgw(t);
  const bucket = await server.newBucket();
  const { waybill } = layOut(t);
  const env = {
    AWS_ACCESS_KEY_ID: server.user.accessKeyId,
    AWS_SECRET_ACCESS_KEY: server.user.secretAccessKey,
    AWS_REGION: 'us-east-1',
  };
  const url = `s3://${bucket}/site?endpoint=${encodeURIComponent(server.endpoint)}`;
  t.match(await waybill(['publish', 'site', url], env), { status: 0, stdout: /publish_new=1/ });
  const found = await server.client().send(new GetObjectCommand({ Bucket: bucket, Key: 'site/index.html' }));
  t.equal(await found.Body?.transformToString(), '<p>home</p>');
  t.match(await waybill(['publish', 'site', url], env), { status: 0, stdout: /skip_same=1/ });
  const absent = `s3://no-such-bucket/site?endpoint=${encodeURIComponent(server.endpoint)}`;
  t.match(await waybill(['publish', 'site', absent], env), { status: 1, stdout: /no-such-bucket/ });
});
