import { gzipSync } from 'node:zlib';
import t, { type Test } from 'tap';
import type { UploadPipeline } from '../../../src/api/uploads/upload-service.ts';
import { stageUpload } from '../../../src/core/bundle/stage-upload.ts';
import { bundleTar } from '../../fixtures/tar.ts';
import { startApi, tokens, upload } from '../harness.ts';

/** A bundle with the name of a generated output is rejected before the 202, not by its run. */

type Destination = UploadPipeline['destinations'][number];
const off = { checksums: false, archive: false, index: false, sceneMapPage: false } as const;
const releases = {
  ...{ keep: 1, lingerMs: 0, currentInUrl: false },
  channels: [{ name: 'preview', ttlMs: 60_000 }],
};
const site = gzipSync(bundleTar({ 'index.html': '<p>home</p>' }, { name: 'site' }));
const headers = { 'content-type': 'application/gzip' };

const start = (test: Test, ...destinations: Destination[]): ReturnType<typeof startApi> =>
  startApi(test, { stage: stageUpload, maxUploadSize: 20_000, destinations });

t.test('rejects a bundle with index.html if outputs.index is true', async (t) => {
  const api = await start(t, { id: 'web', outputs: { ...off, index: true }, releases: null });
  for (const query of ['', '?dry_run=true']) {
    const response = await upload(api.origin, { headers, query, body: site });
    t.equal(response.status, 422, query);
    t.match(await response.json(), {
      code: 'invalid_bundle',
      detail:
        /destination "web" generates "index\.html" \(outputs\.index\).*set outputs\.index to auto or false/,
      findings: [{ code: 'generated_path_taken', file: 'index.html' }],
    });
  }
  t.same(await api.staged(), [], 'no files stay staged');
});

t.test('accepts it with outputs.index: auto', async (t) => {
  const { origin } = await start(t, { id: 'web', outputs: { ...off, index: 'auto' }, releases: null });
  t.equal((await upload(origin, { headers, body: site })).status, 202);
});

t.test('the last byte of a resumable upload gets the same answer', async (t) => {
  const { origin } = await start(t, { id: 'web', outputs: { ...off, index: true }, releases: null });
  const tus = { 'tus-resumable': '1.0.0', authorization: `Bearer ${tokens.maps}` };
  const created = await fetch(`${origin}/v1/pipelines/maps/uploads`, {
    method: 'POST',
    headers: { ...tus, 'upload-length': String(site.length) },
  });
  const response = await fetch(new URL(created.headers.get('location') ?? '', origin), {
    method: 'PATCH',
    headers: { ...tus, 'upload-offset': '0', 'content-type': 'application/offset+octet-stream' },
    body: site,
  });
  t.equal(response.status, 422);
  t.match(await response.json(), { findings: [{ code: 'generated_path_taken' }] });
});

t.test('a publication to a channel checks only the destinations that have the channel', async (t) => {
  const { origin } = await start(
    t,
    { id: 'web', outputs: { ...off, index: true }, releases: null },
    { id: 'previews', outputs: off, releases },
  );
  t.equal((await upload(origin, { headers, query: '?channel=preview', body: site })).status, 202);
  t.equal((await upload(origin, { headers, body: site })).status, 422);
});
