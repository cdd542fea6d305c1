import t from 'tap';
import {
  errorRecord,
  finding,
  publicError,
  WaybillError,
  withoutPaths,
} from '../../../src/core/lib/errors.ts';

t.test('removes paths of the host, and nothing else', async (t) => {
  const cases: [string, string][] = [
    [
      "EACCES: permission denied, open '/srv/my files/maps/a.json'",
      "EACCES: permission denied, open '<path>'",
    ],
    ['local /srv/www: no space is left', 'local <path>: no space is left'],
    ['run `ssh-keygen -f ~/.ssh/known_hosts -R host`', 'run `ssh-keygen -f <path> -R host`'],
    ['(/var/lib/waybill/staging/upload-1/x)', '(<path>)'],
    ['maps/scenes.json is not recorded', 'maps/scenes.json is not recorded'],
    ['GET https://s3.example.org/maps/a.json', 'GET https://s3.example.org/maps/a.json'],
    ['GET /openapi.json lists the parameters', 'GET /openapi.json lists the parameters'],
    ['TARGET /srv/www', 'TARGET <path>'],
    ['application/json and 1/2', 'application/json and 1/2'],
    ['"C:\\Users\\me\\x" is taken', '"<path>" is taken'],
  ];
  for (const [text, expected] of cases) t.equal(withoutPaths(text), expected);
});

t.test('sanitizes messages, hints and findings, and hides unexpected errors', async (t) => {
  const error = new WaybillError('storage_denied', 'cannot write /srv/www/a', {
    hint: 'chown /srv/www',
    findings: [finding('error', 'denied', 'see /srv/www/a', { file: '/srv/www/a' })],
  });
  t.match(publicError(errorRecord(error)), {
    code: 'storage_denied',
    message: 'cannot write <path>',
    hint: 'chown <path>',
    findings: [{ message: 'see <path>', file: '<path>' }],
  });
  const unforeseen = publicError(errorRecord(new TypeError("reading 'password' of /etc/x")));
  t.notMatch(JSON.stringify(unforeseen), /password|etc/);
});
