import t from 'tap';
import { acceptedCodings, negotiate } from '../../../../src/api/http/answer/negotiate.ts';

t.test('Accept selects the format as in RFC 9110', (t) => {
  const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8';
  const matrix: [string | undefined, string][] = [
    [undefined, 'application/json; charset=utf-8'],
    ['', 'application/json; charset=utf-8'],
    ['*/*', 'application/json; charset=utf-8'],
    [browser, 'application/json; charset=utf-8'],
    ['text/html', 'application/json; charset=utf-8'],
    ['text/html, text/plain', 'text/plain; charset=utf-8'],
    ['application/xml', 'application/xml; charset=utf-8'],
    ['text/xml', 'text/xml; charset=utf-8'],
    ['TEXT/PLAIN', 'text/plain; charset=utf-8'],
    ['text/plain; charset=UTF-8', 'text/plain; charset=utf-8'],
    ['application/json;charset=utf-8', 'application/json; charset=utf-8'],
    ['application/*', 'application/json; charset=utf-8'],
    ['text/*', 'text/xml; charset=utf-8'],
    ['application/json;q=0.5, application/xml;q=0.9', 'application/xml; charset=utf-8'],
    ['application/json;q=0, */*', 'application/xml; charset=utf-8'],
    ['text/plain;q=0.2, application/xml;q=0.1, image/png', 'text/plain; charset=utf-8'],
    ['nonsense, text/plain', 'text/plain; charset=utf-8'],
  ];
  for (const [accept, mediaType] of matrix)
    t.equal(negotiate(null, accept).mediaType, mediaType, accept ?? 'none');
  t.end();
});

t.test('a read with a map or a table offers it after all other formats', (t) => {
  const all = ['json', 'xml', 'text', 'geojson', 'csv'] as const;
  const matrix: [string, string][] = [
    ['application/geo+json', 'application/geo+json'],
    ['application/geo+json;charset=utf-8', 'application/geo+json'],
    ['text/csv', 'text/csv; charset=utf-8; header=present'],
    ['text/csv; header=present', 'text/csv; charset=utf-8; header=present'],
    ['text/csv, application/geo+json;q=0.9', 'text/csv; charset=utf-8; header=present'],
    ['application/geo+json, application/json;q=0.9', 'application/geo+json'],
    ['text/html, application/geo+json', 'application/geo+json'],
    ['text/html, application/xml;q=0.9, */*;q=0.8', 'application/json; charset=utf-8'],
    ['application/*', 'application/json; charset=utf-8'],
    ['text/*', 'text/xml; charset=utf-8'],
    ['*/*', 'application/json; charset=utf-8'],
    ['*/*;q=0.1, text/csv', 'text/csv; charset=utf-8; header=present'],
  ];
  for (const [accept, mediaType] of matrix)
    t.equal(negotiate(null, accept, all).mediaType, mediaType, accept);
  t.equal(negotiate('geojson', 'text/csv', all).format, 'geojson');
  t.equal(negotiate('csv', undefined, all).format, 'csv');
  for (const [format, accept] of [
    ['geojson', undefined],
    ['csv', undefined],
    [null, 'text/csv'],
    [null, 'application/geo+json'],
  ] as const)
    t.throws(() => negotiate(format, accept), { code: 'unsupported_format', hint: /or format=text$/ });
  t.throws(() => negotiate('pdf', undefined, all), {
    code: 'unsupported_format',
    hint: /text\/csv; or use .*format=csv$/,
  });
  t.end();
});

t.test('selects the best of the accepted encodings', (t) => {
  const available = ['br', 'gzip', 'identity'] as const;
  t.same(
    acceptedCodings('gzip, br', available),
    ['br', 'gzip', 'identity'],
    'the first of ours if all are equal',
  );
  t.same(acceptedCodings('gzip, br;q=0.9', available), ['gzip', 'br', 'identity']);
  t.same(acceptedCodings('identity;q=0, *', available), ['br', 'gzip']);
  t.same(acceptedCodings('*;q=0', available), []);
  t.end();
});

t.test('format overrides Accept', (t) => {
  t.equal(negotiate('xml', 'application/json').format, 'xml');
  t.equal(negotiate('text', 'image/png').format, 'text');
  t.equal(negotiate('json', 'text/plain').format, 'json');
  t.end();
});

t.test('rejects unsupported media types and lists the supported ones', (t) => {
  for (const [format, accept] of [
    ['pdf', undefined],
    ['JSON', undefined],
    [null, 'image/png'],
    [null, 'application/json;q=0'],
    [null, '*/*;q=0'],
    [null, 'nonsense'],
  ] as const)
    t.throws(() => negotiate(format, accept), {
      code: 'unsupported_format',
      hint: /application\/json, application\/xml, text\/xml, text\/plain/,
    });
  t.end();
});
