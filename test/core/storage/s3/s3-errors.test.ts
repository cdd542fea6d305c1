import t from 'tap';
import { errorNameOf, failureOf, isUnsupported, s3Error } from '../../../../src/core/storage/s3/s3-errors.ts';

const place = { label: 's3://maps/live/', bucket: 'maps' };
const now = new Date('2026-11-20T02:00:00Z');
const mapped = (name: string, status: number | null, message = '', headers = {}) =>
  s3Error(place, ': "x"', { name, message, status, headers }, now);

t.test('maps error codes and statuses to storage errors', async (t) => {
  const expected: [string, number | null, string][] = [
    ['NoSuchKey', 404, 'storage_not_found'],
    ['NotFound', 404, 'storage_permanent'],
    ['NoSuchBucket', 404, 'storage_permanent'],
    ['AccessDenied', 403, 'storage_denied'],
    ['Other', 401, 'storage_denied'],
    ['Other', 412, 'storage_conflict'],
    ['Other', 409, 'storage_transient'],
    ['Other', 503, 'storage_transient'],
    ['Other', 507, 'storage_full'],
    ['Other', 501, 'storage_permanent'],
    ['Other', 200, 'storage_permanent'],
    ['ECONNRESET', null, 'storage_transient'],
    ['ECONNREFUSED', null, 'storage_transient'],
    ['ENOTFOUND', null, 'storage_transient'],
    ['EAI_AGAIN', null, 'storage_transient'],
    ['EAI_FAIL', null, 'storage_transient'],
    ['ECONNABORTED', null, 'storage_transient'],
    ['EPROTO', null, 'storage_permanent'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', null, 'storage_permanent'],
    ['SyntaxError', null, 'storage_permanent'],
  ];
  for (const [name, status, code] of expected) t.equal(mapped(name, status).code, code, `${name} ${status}`);
});

t.test('does not look up or print unknown error codes', async (t) => {
  for (const name of ['constructor', '__proto__', 'toString'])
    t.match(mapped(name, 400), { code: 'storage_permanent', retryable: false });
  for (const name of ['a\nb', '\u001b[2J', '\u0085', 'A'.repeat(1000)])
    t.equal(failureOf(Object.assign(new Error('m'), { name })).name, 'UnknownError');
  const region = { 'x-amz-bucket-region': 'x\u0085y' };
  t.match(mapped('PermanentRedirect', 301, '', region).message, /is in another region$/);
});

t.test('names region, clock and certificate', async (t) => {
  t.match(mapped('PermanentRedirect', 301, '', { 'x-amz-bucket-region': 'eu-west-1' }), {
    message: /is in the region eu-west-1/,
    hint: 'set region: eu-west-1',
  });
  t.match(mapped('RequestTimeTooSkewed', 403, '', { date: 'Fri, 20 Nov 2026 03:00:00 GMT' }), {
    code: 'storage_permanent',
    message: /3600 s behind/,
  });
  t.match(mapped('CERT_HAS_EXPIRED', null), { message: /certificate of the server is not trusted/ });
});

t.test('if a proxy rejects a request as too large, the error names the limit to raise', async (t) => {
  for (const name of ['EntityTooLarge', 'UnknownError', 'SyntaxError'])
    t.match(mapped(name, 413, '<html>413 Request Entity Too Large</html>'), {
      code: 'storage_permanent',
      message: /refuses requests of this size \(status 413\)/,
      hint: /client_max_body_size.* above 16 MiB/,
    });
});

t.test('a message of the server is shortened to one line, and the cause has no secrets', async (t) => {
  const error = mapped('Odd', 400, `a\n\tb${'x'.repeat(500)}`);
  t.match(error.message, /^s3:\/\/maps\/live\/: "x": a bx+ \(Odd, status 400\)$/);
  t.ok(error.message.length < 260);
  t.equal(errorNameOf(error), 'Odd');
  const advice = 'unexpected content.\n  Deserialization error: to see the raw response, inspect the field.';
  t.equal(mapped('Odd', 200, advice).message, 's3://maps/live/: "x": unexpected content. (Odd, status 200)');
  t.same(Object.keys(error.cause as object).sort(), ['name', 'status']);
});

t.test('errors of Node.js and of the SDK have the same form', async (t) => {
  t.match(failureOf(Object.assign(new Error('x'), { code: 'EPIPE' })), { name: 'EPIPE', status: null });
  const sdk = Object.assign(new Error('x'), { name: 'SlowDown', $metadata: { httpStatusCode: 503 } });
  t.match(failureOf(sdk), { name: 'SlowDown', status: 503, headers: {} });
});

t.test('only 501 and certain 400 answers mean that a condition is not supported', async (t) => {
  t.ok(isUnsupported(mapped('NotImplemented', 501)));
  t.ok(isUnsupported(mapped('InvalidArgument', 400)));
  t.notOk(isUnsupported(mapped('EntityTooSmall', 400)));
  t.notOk(isUnsupported(new Error('x')));
});
