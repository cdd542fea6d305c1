import t from 'tap';
import { asWaybillError, errorRecord, WaybillError } from '../../../src/core/lib/errors.ts';

t.test('what is not a WaybillError becomes internal_error and keeps its cause', async (t) => {
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
