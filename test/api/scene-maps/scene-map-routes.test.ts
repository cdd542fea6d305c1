import { readFile } from 'node:fs/promises';
import t from 'tap';
import { maxRequestBytes } from '../../../src/api/scene-maps/document-body.ts';
import { sceneMapSchemaText } from '../../../src/core/scene-map/schema-file.ts';
import { startApi } from '../harness.ts';

let base = '';
t.before(async () => {
  base = (await startApi(t)).origin;
});

const example = (name: string): Promise<Buffer> => readFile(`examples/scene-maps/${name}`);
const post = (
  body: RequestInit['body'],
  headers: Record<string, string> = {},
  query = '',
): Promise<Response> =>
  fetch(`${base}/v1/scene-maps/validate${query}`, { method: 'POST', headers, body: body ?? null });
const json = { 'Content-Type': 'application/json' };
const codeOf = async (response: Response): Promise<unknown> =>
  ((await response.json()) as { code: unknown }).code;

t.test('a JSON body is checked, with lines and columns of the bytes sent', async (t) => {
  const sound = await post(await example('session-42.json'), json);
  t.equal(sound.status, 200);
  t.match(await sound.json(), {
    schema_version: 1,
    valid: true,
    clean: true,
    files: [{ findings: { length: 0 } }],
  });
  const invalid = (await (await post(await example('session-42-invalid.json'), json)).json()) as {
    valid: boolean;
    files: { findings: { line: number }[] }[];
  };
  t.equal(invalid.valid, false);
  t.equal(invalid.files[0]?.findings.length, 4);
  t.ok((invalid.files[0]?.findings[0]?.line ?? 0) > 1);
  t.match(await (await post('{"a":1,}', json)).json(), { valid: false });
  t.match(await (await post('', json)).json(), {
    valid: false,
    files: [{ findings: [{ code: 'empty_document' }] }],
  });
});

t.test('schema_only omits the content rules', async (t) => {
  const body = await example('session-42-findings.json');
  t.match(await (await post(body, json)).json(), { valid: true, clean: false });
  t.match(await (await post(body, json, '?schema_only=true')).json(), { valid: true, clean: true });
  t.equal(await codeOf(await post(body, json, '?schema_only=perhaps')), 'invalid_request');
});

t.test('a form may have the file and a transcript', async (t) => {
  const form = new FormData();
  form.set('file', new Blob([await example('session-42.json')]), 'séance.json');
  form.set('transcript', new Blob(['[{"segment_id": 1}, {"segment_id": 300}]']), 'talk.json');
  const report = (await (await post(form)).json()) as {
    files: { file: string; findings: { code: string }[] }[];
  };
  t.equal(report.files[0]?.file, 'séance.json');
  t.ok(report.files[0]?.findings.every(({ code }) => code === 'segment_not_in_transcript'));
  form.set('transcript', new Blob(['hello']), 'talk.txt');
  t.equal(await codeOf(await post(form)), 'invalid_request');
  form.delete('file');
  t.equal(await codeOf(await post(form)), 'invalid_request');
  const other = new FormData();
  other.set('other', new Blob(['{}']), 'a.json');
  t.equal(await codeOf(await post(other)), 'invalid_request');
});

t.test('rejects input that is not a document', async (t) => {
  t.equal(await codeOf(await post('x', { 'Content-Type': 'text/plain' })), 'unsupported_media_type');
  t.equal(await codeOf(await post('x', { ...json, 'Content-Encoding': 'gzip' })), 'unsupported_media_type');
  t.equal(await codeOf(await post(Buffer.alloc(maxRequestBytes + 1, 0x20), json)), 'upload_too_large');
  const form = new FormData();
  form.set('file', new Blob([Buffer.alloc(maxRequestBytes + 1)]), 'a.json');
  t.equal(await codeOf(await post(form)), 'upload_too_large');
  t.equal(
    await codeOf(await post('--x', { 'Content-Type': 'multipart/form-data; boundary=x' })),
    'invalid_request',
  );
  const wrong = await fetch(`${base}/v1/scene-maps/validate`);
  t.equal(wrong.headers.get('allow'), 'POST');
  t.equal(await codeOf(wrong), 'method_not_allowed');
});

t.test('says which part of a form is wrong', async (t) => {
  const file = (name: string, more = '; filename="a.json"'): string =>
    `--x\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n{}\r\n`;
  for (const [body, detail] of [
    [file('map'), /^the form has the file "map";/],
    [file('file') + file('file'), /^the form has a second file "file";/],
    [file('file', ''), /^the form has a part without a filename;/],
    [file('file') + file('transcript') + file('more'), /^the form has more than two parts;/],
    ['--x\r\nX\u0001: y\r\n\r\n', /^the header of a part is invalid;/],
    [file('file').slice(0, -3), /^the form ends before its last boundary; it may be cut short;/],
  ] as const) {
    const end = detail.source.includes('boundary') ? '' : '--x--\r\n';
    const answer = await post(body + end, { 'Content-Type': 'multipart/form-data; boundary=x' });
    t.match(await answer.json(), { code: 'invalid_request', detail }, body);
  }
});

t.test('the schema is published, and a client with the current one gets 304', async (t) => {
  const first = await fetch(`${base}/v1/schemas/scene-map.json`);
  t.match(first.headers.get('content-type'), /^application\/schema\+json/);
  t.equal(await first.text(), sceneMapSchemaText());
  const again = await fetch(`${base}/v1/schemas/scene-map.json`, {
    // fetch requests no caching itself if the caller sets no header.
    headers: { 'If-None-Match': first.headers.get('etag') ?? '', 'Cache-Control': 'max-age=0' },
  });
  t.equal(again.status, 304);
});
