import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { GetObjectCommand } from '@aws-sdk/client-s3';
import t from 'tap';
import { program } from '../cli/process.ts';
import { startRadosgw } from '../services/radosgw.ts';
import { startSshd } from '../services/sshd.ts';
import { bash, blocksOf } from './pasted-blocks.ts';

// Starts servers, which is slow on a busy machine.
t.setTimeout(0);

t.test('"A site in ten minutes" works, pasted block by block, on real servers', async (t) => {
  const sshd = await startSshd(t);
  const s3 = await startRadosgw(t);
  const bucket = await s3.newBucket();
  const cwd = t.testdir({ home: { '.ssh': {} }, work: {} });
  const key = readFileSync(sshd.clientKeyFile);
  writeFileSync(path.join(cwd, 'home/.ssh/id_ed25519'), key, { mode: 0o600 });
  const { accessKeyId, secretAccessKey } = s3.user;
  const replaced = {
    'sftp://deploy@web1.example.org/srv': `sftp://${sshd.user}@${sshd.host}:${sshd.port}${sshd.root}`,
    'my-bucket': bucket,
    'https://s3.example.org': encodeURIComponent(s3.endpoint),
    'your-key': accessKeyId,
    'your-secret': secretAccessKey,
  };
  const blocks = blocksOf(readFileSync('docs/tutorials/first-site.md', 'utf8'), 'sh');
  let script = `waybill() { "${process.execPath}" "${program}" "$@"; }\n${blocks.join('\n')}`;
  for (const [example, actual] of Object.entries(replaced)) {
    t.ok(script.includes(example), example);
    script = script.replaceAll(example, actual);
  }
  const { status, output } = await bash(script, {
    cwd: path.join(cwd, 'work'),
    env: { PATH: process.env['PATH'], HOME: path.join(cwd, 'home') },
  });
  t.equal(status, 0, status === 0 ? 'every block succeeds' : output);
  const order = [
    'dry run, nothing was written',
    'publish_new=1',
    'skip_same=1',
    'replace_catalog',
    'fail_unmanaged=1',
    'exit code 1',
    'not yours',
    'rolled back',
    '<h1>Hello again</h1>',
    '<h1>Corrected</h1>',
    'clean  every recorded output is as it was published',
  ];
  let from = 0;
  for (const text of order) {
    const at = output.indexOf(text, from);
    t.ok(at >= from, `prints ${text}, in order`);
    from = Math.max(from, at);
  }
  t.same(readdirSync(path.join(cwd, 'work/www')), ['.publisher.json', 'index.html']);
  t.match(readFileSync(path.join(sshd.root, 'www/index.html'), 'utf8'), 'Corrected');
  const object = new GetObjectCommand({ Bucket: bucket, Key: 'site/index.html' });
  t.match(await (await s3.client().send(object)).Body?.transformToString(), 'Corrected');
});
