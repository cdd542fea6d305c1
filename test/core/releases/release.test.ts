import t from 'tap';
import { digestOf } from '../../../src/core/lib/digest.ts';
import type { RelativePath } from '../../../src/core/lib/paths.ts';
import {
  parsePointerTarget,
  parseReleaseId,
  type ReleasedOutput,
  type ReleaseId,
  releaseIdOf,
  releaseKey,
  releasePathOf,
} from '../../../src/core/releases/release.ts';
import { instant } from '../../support/instant.ts';

const created = instant('2026-11-21T11:15:00.25+01:00');
const output: ReleasedOutput = {
  path: 'index.html' as RelativePath,
  kind: 'file',
  digest: digestOf('x'),
  size: 1,
  generated: { contentType: 'text/html', cacheControl: null, generator: null },
  url: null,
  source: { backend: 'local', id: '/in', path: 'site' },
  owner: { pipelineId: 'maps', destinationId: 'web' },
};

t.test('an id starts with the creation time and is equal for equal plans', async (t) => {
  const id = releaseIdOf(created, [output]);
  t.match(id, /^20261121T101500Z-[0-9a-f]{8}$/);
  t.equal(releaseIdOf(created, [{ ...output }]), id);
  t.equal(parseReleaseId(id), id);
  t.equal(parsePointerTarget(releaseKey(id)), id);
});

t.test('every recorded field of an output except its time changes the id', async (t) => {
  const generator = { name: 'index', version: 1, inputs: digestOf('i') };
  const others: ReleasedOutput[] = [
    { ...output, path: 'other.html' as RelativePath },
    { ...output, kind: 'scene_map' },
    { ...output, digest: digestOf('y') },
    { ...output, size: 2 },
    { ...output, generated: { ...output.generated, contentType: 'text/plain' } },
    { ...output, generated: { ...output.generated, cacheControl: 'no-store' } },
    { ...output, generated: { ...output.generated, generator } },
    { ...output, generated: { ...output.generated, generator: { ...generator, version: 2 } } },
    { ...output, url: 'https://maps.example.org/index.html' },
    { ...output, source: { ...output.source, path: 'other' } },
    { ...output, owner: { ...output.owner, destinationId: 'mirror' } },
  ];
  const plans = [
    [output],
    [],
    [output, { ...output, path: 'z' as RelativePath }],
    ...others.map((other) => [other]),
  ];
  const ids = plans.map((plan) => releaseIdOf(created, plan));
  ids.push(releaseIdOf(instant('2026-11-21T10:15:00.26Z'), [output]));
  t.equal(new Set(ids).size, ids.length);
});

t.test('rejects other texts as an id', async (t) => {
  const id = '20261121T101500Z-9f2c41aa';
  for (const text of [`${id}0`, id.toUpperCase(), `../${id}`, `${id}/x`, '', 'current'])
    t.equal(parseReleaseId(text), undefined, text);
  for (const target of [
    id,
    `/srv/releases/${id}`,
    `releases/${id}/`,
    `releases/../releases/${id}`,
    'releases/',
  ])
    t.equal(parsePointerTarget(target), null, target);
  t.equal(parsePointerTarget(`releases/${id}`), id as ReleaseId);
});

t.test('recognizes a managed path as a release of its bundle path', async (t) => {
  const id = '20261121T101500Z-9f2c41aa' as ReleaseId;
  t.same(releasePathOf(`site/maps/releases/${id}`), { bundlePath: 'site/maps', id });
  t.same(releasePathOf(`releases/${id}`), { bundlePath: '.', id });
  for (const path of [
    '',
    '.',
    'releases',
    `site/${id}`,
    `site/releases/${id}/x`,
    `xreleases/${id}`,
    'site/releases/x',
  ])
    t.equal(releasePathOf(path), null, path);
});
