import t from 'tap';
import { asWaybillError, errorRecord, WaybillError } from '../../../src/core/lib/errors.ts';

t.test('converts other errors to internal_error and keeps the cause', async (t) => {
  const cause = new TypeError('no');
  const error = asWaybillError(cause);
  t.equal(error.code, 'internal_error');
  t.equal(error.cause, cause);
  t.match(errorRecord(new WaybillError('queue_full', 'full', { hint: 'wait' })), {
    code: 'queue_full',
    message: 'full',
    hint: 'wait',
    retryable: true,
  });
});
