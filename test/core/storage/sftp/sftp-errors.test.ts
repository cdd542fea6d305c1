import t from 'tap';
import { WaybillError } from '../../../../src/core/lib/errors.ts';
import {
  connectFailure,
  DisconnectError,
  requestFailure,
} from '../../../../src/core/storage/sftp/sftp-errors.ts';

const answered = (code: number): Error => Object.assign(new Error('Failure'), { code });

t.test('maps statuses of the server to storage errors', async (t) => {
  const expected: [number, string][] = [
    [2, 'storage_not_found'],
    [3, 'storage_denied'],
    [4, 'storage_permanent'],
    [6, 'storage_transient'],
    [7, 'storage_transient'],
    [8, 'storage_permanent'],
    [10, 'storage_not_found'],
    [11, 'storage_exists'],
    [12, 'storage_denied'],
    [14, 'storage_full'],
    [15, 'storage_full'],
    [17, 'storage_transient'],
    [18, 'storage_permanent'],
    [19, 'storage_permanent'],
    [20, 'storage_permanent'],
    [21, 'storage_permanent'],
    [24, 'storage_permanent'],
    [99, 'storage_permanent'],
  ];
  for (const [answer, code] of expected) {
    const cause = answered(answer);
    t.match(requestFailure('sftp://x', 'a', cause), { code, cause, message: /^sftp:\/\/x: "a": / });
  }
  t.equal(requestFailure('sftp://x', 'a', new DisconnectError('gone')).code, 'storage_transient');
});

t.test('connection failures map to codes of the storage', async (t) => {
  const expected: [string, string, string][] = [
    ['All configured authentication methods failed', '', 'storage_denied'],
    ['Too many authentication failures', '', 'storage_denied'],
    ['x', 'ENOTFOUND', 'storage_transient'],
    ['x', 'EAI_AGAIN', 'storage_transient'],
    ['x', 'EAI_FAIL', 'storage_transient'],
    ['x', 'ECONNREFUSED', 'storage_transient'],
    ['x', 'ECONNRESET', 'storage_transient'],
    ['x', 'ECONNABORTED', 'storage_transient'],
    ['Handshake failed: no matching cipher', '', 'storage_permanent'],
    ['Unable to start subsystem: sftp', '', 'storage_permanent'],
    ['x', '', 'storage_transient'],
  ];
  for (const [message, errno, code] of expected)
    t.equal(
      connectFailure('x', Object.assign(new Error(message), { code: errno })).code,
      code,
      message + errno,
    );
});

t.test('returns a mapped error unchanged', async (t) => {
  const error = new WaybillError('storage_full', 'x');
  t.equal(requestFailure('x', 'a', error), error);
  t.equal(connectFailure('x', error), error);
});
