import t from 'tap';
import { parseDestination } from '../../../../src/cli/commands/publish/destination-argument.ts';

/** Destinations of `waybill publish` and `promote` as text. */

const parse = (text: string): ReturnType<typeof parseDestination> =>
  parseDestination(text, { workingDirectory: '/work', userName: 'me', sshKeyFile: undefined });

t.test('the same place has the same id, however its path is written', async (t) => {
  for (const [one, other] of [
    ['www', '/work/www/'],
    ['sftp://web1/srv/www', 'sftp://web1//srv//www/'],
    ['sftp://web1/~/www', 'sftp://web1/~//www'],
    ['s3://bucket/site', 's3://bucket//site'],
  ] as const)
    t.same(parse(one), parse(other), other);
});

t.test('a host may be an address or have letters of any language', async (t) => {
  t.equal(parse('sftp://[::1]:2222/www').settings['host'], '::1');
  t.equal(parse('sftp://bücher.example/www').settings['host'], 'bücher.example');
});

t.test('parts that would be ignored or misunderstood are refused', async (t) => {
  for (const [text, message, hint] of [
    ['~', /did not replace "~"/, /the full path, or \.\/~ /],
    ['~/www', /did not replace "~"/, /\.\/~\/www for a directory named "~"/],
    ['s3://bucket/site#1', /S3 takes no "#"; write %23/, /s3:/],
    ['s3://bucket/site#1?endpoint=https://s3.example.org', /S3 takes no "#"/, /s3:/],
    ['sftp://web1/www#1', /SFTP takes no "\?" and no "#"/, /sftp:/],
  ] as const)
    t.throws(() => parse(text), { code: 'usage', message, hint }, text);
  t.equal(parse('s3://bucket/site%231').settings['prefix'], 'site#1');
  t.equal(parse('./~/www').settings['path'], '/work/~/www');
});
